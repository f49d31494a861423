"""Manifests and configuration files for clusters have the fields that KubeRay and Ray Serve take.

Fields of RayJob, RayService and their cluster are those of KubeRay's API ray.io/v1, as far as the
manifests use it; of a pod, what is needed to run it.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("ray", reason="ray is not installed")
yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

from labelspace.cli.app import app  # noqa: E402
from labelspace.serve.ray_app import application  # noqa: E402

FOLDER = Path(__file__).parents[1] / "examples" / "cluster"


def fields(required=(), **kinds):
    """Return the schema of an object that has no other fields than these."""
    return {
        "type": "object",
        "properties": kinds,
        "required": list(required),
        "additionalProperties": False,
    }


def many(kind):
    return {"type": "array", "items": kind}


TEXT, WHOLE, TRUTH = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
AMOUNTS = fields(requests=TEXTS, limits=TEXTS)
CONTAINER = fields(
    ("name", "image"),
    name=TEXT,
    image=TEXT,
    env=many(fields(("name", "value"), name=TEXT, value=TEXT)),
    resources=AMOUNTS,
    volumeMounts=many(fields(("name", "mountPath"), name=TEXT, mountPath=TEXT, readOnly=TRUTH)),
)
VOLUME = fields(
    ("name",),
    name=TEXT,
    persistentVolumeClaim=fields(("claimName",), claimName=TEXT),
    secret=fields(("secretName",), secretName=TEXT),
)
POD = fields(
    ("spec",),
    spec=fields(("containers",), containers=many(CONTAINER), volumes=many(VOLUME)),
)
CLUSTER = fields(
    ("headGroupSpec",),
    rayVersion=TEXT,
    headGroupSpec=fields(("rayStartParams", "template"), rayStartParams=TEXTS, template=POD),
    workerGroupSpecs=many(
        fields(
            ("groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"),
            groupName=TEXT,
            replicas=WHOLE,
            minReplicas=WHOLE,
            maxReplicas=WHOLE,
            rayStartParams=TEXTS,
            template=POD,
        )
    ),
)
JOB = fields(
    ("entrypoint", "rayClusterSpec"),
    entrypoint=TEXT,
    backoffLimit=WHOLE,
    shutdownAfterJobFinishes=TRUTH,
    ttlSecondsAfterFinished=WHOLE,
    rayClusterSpec=CLUSTER,
)
SERVICE = fields(
    ("serveConfigV2", "rayClusterConfig"), serveConfigV2=TEXT, rayClusterConfig=CLUSTER
)


def read(name):
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "kind", "schema"),
    [("rayjob.yaml", "RayJob", JOB), ("rayservice.yaml", "RayService", SERVICE)],
)
def test_manifests_have_the_fields_of_kuberay(name, kind, schema):
    manifest = read(name)
    whole = fields(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "ray.io/v1"},
        kind={"const": kind},
        metadata=fields(("name",), name=TEXT),
        spec=schema,
    )
    jsonschema.validate(manifest, whole)
    cluster = manifest["spec"].get("rayClusterSpec") or manifest["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes


def test_the_command_of_the_job_has_options_that_exist():
    words = shlex.split(read("rayjob.yaml")["spec"]["entrypoint"])
    assert words[:2] == ["labelspace", "predict"]
    shown = CliRunner().invoke(app, ["predict", "--help"], env={"COLUMNS": "200"}).output
    assert all(word in shown for word in words if word.startswith("--"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray Serve itself
def test_configurations_of_ray_serve_are_valid():
    from ray.serve.schema import ServeDeploySchema

    manifest = yaml.safe_load(read("rayservice.yaml")["spec"]["serveConfigV2"])
    for config in (read("serve.yaml"), manifest):
        [deployed] = ServeDeploySchema.model_validate(config).applications
        assert deployed.import_path == f"{application.__module__}:{application.__name__}"
        assert application(deployed.args) is not None
    assert manifest["applications"][0]["args"]["token_file"]  # as it listens beyond this machine
