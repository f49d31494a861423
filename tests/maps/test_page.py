"""The page holds the whole map, runs only its own script and fetches nothing."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from importlib.resources import files

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load

from labelspace.maps.page import assembled, map_page, packed_map, part
from support.drawn import RUDE, small_map


def between(page, start, end):
    return re.search(f"{start}(.*?){end}", page, re.DOTALL)[1]


def test_the_arrays_are_the_map_with_frequent_labels_first(tmp_path):
    drawn = small_map()
    arrays = load(gzip.decompress(packed_map(drawn)))
    names = json.loads(arrays["names"].tobytes())
    assert arrays["counts"].tolist() == sorted(drawn.counts, reverse=True)
    old = np.array([drawn.names.index(name) for name in names])
    np.testing.assert_array_equal(drawn.counts[old], arrays["counts"])
    points = arrays["points"].astype(float) @ [1, 1j]
    np.testing.assert_allclose(points, drawn.points[old], atol=1e-7)
    np.testing.assert_array_equal(old[arrays["near"]], drawn.near.labels[old])
    parent = np.where(arrays["parent"] < 0, -1, old[arrays["parent"]])
    np.testing.assert_array_equal(parent, drawn.parent[old])
    np.testing.assert_array_equal(arrays["group"], drawn.group[old])
    (tmp_path / "map").write_bytes(gzip.decompress(packed_map(drawn)))
    with safe_open(tmp_path / "map", "numpy") as file:
        settings = json.loads(file.metadata()["settings"])
    assert old[settings["heads"]].tolist() == drawn.heads.tolist()
    distances = arrays["distances"] / 65535 * settings["farthest"]
    np.testing.assert_allclose(distances, drawn.near.distances[old], atol=1e-4)


def test_pads_of_the_nearest_stay_pads():
    drawn = small_map()
    drawn.near.labels[0, -1], drawn.near.distances[0, -1] = -1, np.inf
    arrays = load(gzip.decompress(packed_map(drawn)))
    assert (arrays["near"] == -1).sum() == 1


def test_names_and_title_are_never_markup():
    page = map_page(small_map(title=RUDE))
    assert "<img" not in page
    assert page.count("</script>") == 2
    title = between(page, "<h1>", "</h1>")
    assert unescape(title) == RUDE


def test_the_policy_allows_this_script_and_style_and_nothing_else():
    page = map_page(small_map())
    script, style = between(page, "<script>", "</script>"), between(page, "<style>", "</style>")
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    policy = between(page, 'Content-Security-Policy" content="', '"')
    assert policy == "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'".format(
        *hashes
    )
    rest = page.replace(between(page, 'id="data" type="text/plain">', "</script>"), "")
    assert not re.search(
        r"https?:|//[a-z]|\bsrc=|url\(|@import|\bon[a-z]+=", rest.replace(script, "")
    )
    assert "{{" not in rest
    for risky in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("):
        assert risky not in script


def test_the_page_of_the_server_has_the_same_panel():
    index = (files("labelspace.serve") / "page" / "index.html").read_text(encoding="utf-8")
    served, alone = assembled(index, {"star": ""}), map_page(small_map())
    for name in ("panel.html", "stage.html", "search.html"):
        shared = assembled(part(name), {"star": ""})
        assert shared in served
        assert shared in alone
    assert "{{" not in served


def test_the_same_map_gives_the_same_page():
    assert map_page(small_map()) == map_page(small_map())


def test_a_map_without_counts_and_one_of_a_single_label():
    for drawn in (small_map(counted=False), small_map(n=1)):
        assert len(map_page(drawn)) > 10_000


@pytest.fixture
def node(tmp_path):
    """Run a piece of JavaScript behind files of the page; what it returns comes back."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")

    def run(files, body):
        source = "".join(part(name) for name in files)
        code = f"{source};(async () => {body})().then((v) => console.log(JSON.stringify(v)));"
        (tmp_path / "code.js").write_text(code, encoding="utf-8")
        done = subprocess.run(
            ["node", tmp_path / "code.js"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_script_reads_the_arrays(node):
    drawn = small_map()
    packed = base64.b64encode(packed_map(drawn)).decode()
    found = node(
        ["data.js"],
        f"""{{ const d = await unpack("{packed}");
        return [d.names, [...d.counts], [...d.points], JSON.parse(d.texts.settings).counted]; }}""",
    )
    arrays = load(gzip.decompress(packed_map(drawn)))
    assert sorted(found[0]) == sorted(drawn.names)
    assert found[1] == arrays["counts"].tolist()
    np.testing.assert_allclose(found[2], arrays["points"].ravel(), rtol=1e-6)
    assert found[3] is True


def test_names_in_the_script_keep_the_leaf_of_a_path(node):
    path = "Clothing > Women's Clothing > Western Wear"
    names = [f"{path} > Skirts", f"{path} > {'x' * 50}", "y" * 50]
    short, leaf, word = node(["paint.js"], f"{{ return {json.dumps(names)}.map(shortened); }}")
    assert short == "… > Western Wear > Skirts"
    assert leaf == "x" * 41 + "…"
    assert word == "y" * 41 + "…"


def test_views_of_the_script_are_isometries(node):
    p, q, z = 0.3 - 0.5j, -0.8 + 0.1j, np.array([0.2 + 0.6j, -0.9j, 0.0])

    def pair(point):
        return f"[{point.real}, {point.imag}]"

    flat = z.view(float).tolist()
    moved, again, back = node(
        ["disk.js"],
        f"""{{ const t = translation({pair(p)}, {pair(q)}), u = translation({pair(q)}, [0.1, 0.2]);
        const to = [t, u, translation([0.1, 0.2], {pair(p)})];
        const far = Array(9000).fill(0).reduce((view, _, i) => compose(to[i % 3], view), HOME);
        return [look(t, [{pair(p)}, {flat}].flat(), []), look(compose(u, t), {pair(p)}, []),
                far[0] ** 2 + far[1] ** 2 - far[2] ** 2 - far[3] ** 2]; }}""",
    )
    seen = np.array(moved).reshape(-1, 2) @ [1, 1j]
    assert seen[0] == pytest.approx(q)
    assert again == pytest.approx([0.1, 0.2])
    assert back == pytest.approx(1.0)
    # |(a - b) / (1 - conj(a) b)| is the same before and after.
    before = np.abs((z[:, None] - z) / (1 - z.conj()[:, None] * z))
    after = np.abs((seen[1:, None] - seen[1:]) / (1 - seen[1:].conj()[:, None] * seen[1:]))
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_circles_of_the_script_are_geodesics_and_rings(node):
    from labelspace.maps.disk import geodesics, polar, translate

    a, b = 0.7 + 0.1j, -0.2 + 0.6j
    circle, line, around, half = node(
        ["disk.js"],
        """{ return [geodesicCircle(0.7, 0.1, -0.2, 0.6), geodesicCircle(0.2, 0.4, -0.1, -0.2),
                     ring([0.5, -0.3], 1.5), towardsCentre([0.6, 0.0], 0.5)]; }""",
    )
    path = geodesics(np.array([a]), np.array([b]), 7)[0]
    np.testing.assert_allclose(np.abs(path - complex(*circle[:2])), circle[2], rtol=1e-9)
    assert line is None
    away = translate(polar(np.full(5, 1.5), np.arange(5.0)), -(0.5 - 0.3j))
    np.testing.assert_allclose(np.abs(away - complex(*around[:2])), around[2], rtol=1e-9)
    assert np.arctanh(half[0]) == pytest.approx(np.arctanh(0.6) / 2)


def test_the_labels_around_a_chosen_one_come_into_view(node):
    points, centre = [0.5, 0.0, 0.52, 0.01, 0.0, 0.9], 0.5
    far, near, home = node(
        ["disk.js", "paint.js", "map.js"],
        f"""{{ const fit = (zoom, labels) => LabelMap.prototype.fitted.call({{ camera: {{ zoom }},
          settings: {{ radius: 0.8 }}, data: {{ points: {points} }} }}, [{centre}, 0], labels);
        return [fit(1e4, [2]), fit(1e4, [1]), fit(1.25, [1])]; }}""",
    )
    seen = abs((0.9j - centre) / (1 - centre * 0.9j))
    assert far == pytest.approx(max(1.25, 0.7 / seen))
    moved = abs((0.52 + 0.01j - centre) / (1 - centre * (0.52 + 0.01j)))
    assert near == pytest.approx(0.7 / moved)
    assert home == 1.25


def test_names_of_the_script_are_written_inwards_where_lines_lead_outwards(node):
    left = node(
        ["paint.js"],
        """{ const painter = { data: { parent: [-1, 0, -1, 2] }, origin: 0,
          seen: [0.3, 0, 0.6, 0, -0.3, 0, -0.6, 0], hasChildren: [1, 0, 1, 0] };
        return [0, 1, 2, 3].map((label) => Painter.prototype.isNameLeft.call(painter, label)); }""",
    )
    assert left == [True, False, False, True]


def test_labels_inside_a_drawn_area(node):
    inside = node(
        ["paint.js"],
        """{ const area = [[0, 0], [10, 0], [10, 10], [5, 4], [0, 10]];
        const places = [[5, 2], [5, 8], [1, 8], [11, 5], [9, 9]];
        return places.map(([x, y]) => isInside(x, y, area)); }""",
    )
    assert inside == [True, False, True, False, False]


def test_search_finds_beginnings_first(node):
    found = node(
        ["search.js"],
        """{ const names = ["hotdog", "Dog", "cat", "dogma"];
        const lowered = names.map((name) => name.toLowerCase());
        return [" DOG ", "  ", "zz"].map((words) => matches(names, lowered, words)); }""",
    )
    assert found == [[1, 3, 0], [], []]


def test_names_of_the_script_stand_apart(node):
    boxes = node(
        ["paint.js"],
        """{ const placed = new PlacedBoxes(600, 400), taken = []; let seed = 1;
        const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
        for (let i = 0; i < 400; i++) {
          const width = 20 + 80 * random();
          const place = placed.take(600 * random(), 400 * random(), width, 12, 3);
          if (place) taken.push([place[0], place[1] - 6, place[0] + width, place[1] + 6]);
        }
        return taken; }""",
    )
    boxes = np.array(boxes)
    assert len(boxes) > 50
    left, top, right, bottom = boxes.T
    across = (left[:, None] < right) & (left < right[:, None])
    along = (top[:, None] < bottom) & (top < bottom[:, None])
    assert (across & along).sum() == len(boxes)  # each overlaps only itself
    assert left.min() >= 0
    assert right.max() <= 600
