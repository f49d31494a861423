"""The catalogue's figures must fit one another, the real files at hand, and the page about them."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import pytest

from labelspace.datasets.catalogue import PUBLIC_SETS, PublicSet, find
from labelspace.errors import ParameterError

NAMES = {
    "bibtex",
    "delicious",
    "mediamill",
    "eurlex-4k",
    "wiki10-31k",
    "amazoncat-13k",
    "amazoncat-14k",
    "delicious-200k",
    "wikilshtc-325k",
    "wikipedia-500k",
    "amazon-670k",
    "amazon-3m",
}
DATASETS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "datasets.md"

each_set = pytest.mark.parametrize("public", PUBLIC_SETS.values(), ids=lambda public: public.name)


def test_all_sets_are_there_under_their_own_name() -> None:
    assert set(PUBLIC_SETS) == NAMES
    assert all(name == public.name == public.title.lower() for name, public in PUBLIC_SETS.items())


@each_set
def test_averages_agree_with_the_counts(public: PublicSet) -> None:
    """Points x labels per point / labels are the points per label, on train or on all points."""
    candidates = [
        points * public.labels_per_point / public.labels
        for points in (public.train, public.train + public.test)
    ]
    assert any(c == pytest.approx(public.points_per_label, rel=2e-3) for c in candidates)


@pytest.mark.parametrize("name", sorted(NAMES - {"bibtex", "delicious", "mediamill"}))
def test_the_name_gives_the_number_of_labels(name: str) -> None:
    public, size = find(name), name.rsplit("-", 1)[-1]
    unit = {"k": 1_000, "m": 1_000_000}[size[-1]]
    assert public.labels / unit == pytest.approx(int(size[:-1]), rel=0.07)


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("wikilshtc-325k", (0.5, 0.4)),
        ("wikipedia-500k", (0.5, 0.4)),
        ("amazon-670k", (0.6, 2.6)),
        ("amazon-3m", (0.6, 2.6)),
        ("amazoncat-13k", (0.55, 1.5)),
        ("amazoncat-14k", (0.55, 1.5)),
        ("wiki10-31k", (0.55, 1.5)),
        ("delicious-200k", (0.55, 1.5)),
        ("eurlex-4k", (0.55, 1.5)),
        ("bibtex", (0.55, 1.5)),
    ],
)
def test_propensity_constants(name: str, constants: tuple[float, float]) -> None:
    public = find(name)
    assert (public.propensity_a, public.propensity_b) == constants


def test_addresses_are_https_and_each_belongs_to_one_set() -> None:
    urls = [public.url for public in PUBLIC_SETS.values() if public.url]
    assert len(urls) == len(set(urls)) == 10
    assert all(url.startswith("https://") for url in urls)


def test_find_takes_any_case_and_suggests_near_names() -> None:
    assert find(" Amazon-670K ") is PUBLIC_SETS["amazon-670k"]
    with pytest.raises(ParameterError, match="amazon-670k"):
        find("amazon670k")
    with pytest.raises(ParameterError, match=r"bibtex, delicious"):
        find("zzz")


def test_sets_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        find("bibtex").labels = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", ["bibtex", "delicious"])
def test_shape_is_that_of_the_real_files(name: str, shared_data) -> None:
    folder = shared_data(name)
    public = find(name)
    for part, points in (("train", public.train), ("test", public.test)):
        with gzip.open(folder / f"{part}.txt.gz", "rt") as file:
            assert file.readline().split() == [
                str(n) for n in (points, public.features, public.labels)
            ]


@each_set
def test_the_page_shows_the_same_figures(public: PublicSet) -> None:
    page = DATASETS_PAGE.read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{public.name}`"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    counts = [public.train, public.test, public.features, public.labels]
    assert cells[1:5] == [f"{count:,}" for count in counts]
    assert [float(cell.replace(",", "")) for cell in cells[5:9]] == [
        public.labels_per_point,
        public.points_per_label,
        public.propensity_a,
        public.propensity_b,
    ]
    assert cells[9] == ("yes" if public.url else "by hand")
