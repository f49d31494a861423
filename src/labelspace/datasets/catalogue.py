"""The public sets of the Extreme Classification Repository by name: their sizes, the constants of
their propensity model, and where they can be downloaded."""

from __future__ import annotations

from dataclasses import dataclass

from labelspace._core.suggest import nearest
from labelspace.errors import ParameterError

REPOSITORY_PAGE = "http://manikvarma.org/downloads/XC/XMLRepository.html"

# (A, B) of the propensity model, as the repository gives them.
WIKIPEDIA_PROPENSITY = (0.5, 0.4)
AMAZON_PROPENSITY = (0.6, 2.6)
DEFAULT_PROPENSITY = (0.55, 1.5)

TEN_SPLITS = (
    "Published figures are means over ten random splits, given as trSplit and tstSplit files "
    "of 1-based line numbers. "
)


@dataclass(frozen=True)
class PublicSet:
    """One public set.

    Attributes
    ----------
    name, title : str
        The name in lower case, and as the repository writes it.
    train, test : int
        Number of points.
    features, labels : int
        Number of features and labels.
    labels_per_point : float
        Mean number of labels per point.
    points_per_label : float
        Mean number of points per label, as given by the repository, which counts the training
        points for some sets and all points for others.
    propensity_a, propensity_b : float
        The constants A and B of the propensity model.
    url : str or None
        An archive that can be downloaded, None where only the page is known.
    sha256 : str or None
        The checksum of that archive, None where none is published.
    notes : str
        Notes for comparisons with published figures.
    page : str
        The page of the repository.
    """

    name: str
    title: str
    train: int
    test: int
    features: int
    labels: int
    labels_per_point: float
    points_per_label: float
    propensity_a: float
    propensity_b: float
    url: str | None = None
    sha256: str | None = None
    notes: str = ""
    page: str = REPOSITORY_PAGE


def find(name: str) -> PublicSet:
    """Return the public set of this name, in upper or lower case.

    Raises
    ------
    ParameterError
        If there is none; the message names the nearest ones.

    Examples
    --------
    >>> find("EURLex-4K").labels
    3993
    """
    key = name.strip().lower()
    if key in PUBLIC_SETS:
        return PUBLIC_SETS[key]
    near = nearest(key, PUBLIC_SETS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PUBLIC_SETS)}"
    raise ParameterError(f"no public set is called {name!r}: {hint}")


def _drive(file_id: str) -> str:
    """Return the URL of a file on Google Drive; confirm=t skips the warning about large files."""
    return f"https://drive.usercontent.google.com/download?id={file_id}&export=download&confirm=t"


def _set(
    title: str,
    points: tuple[int, int],
    shape: tuple[int, int],
    averages: tuple[float, float],
    propensity: tuple[float, float] = DEFAULT_PROPENSITY,
    *,
    drive_id: str | None = None,
    notes: str = "",
) -> PublicSet:
    """Build a row of the table below.

    `points` is (train, test), `shape` (features, labels), and `averages` (labels per point, points
    per label).
    """
    return PublicSet(
        title.lower(),
        title,
        *points,
        *shape,
        *averages,
        *propensity,
        url=_drive(drive_id) if drive_id else None,
        notes=notes.strip(),
    )


# The Drive files are copies of the repository's first bag-of-words archives that the maintainer of
# napkinXC keeps; the repository's own links of that time no longer answer.
_TABLE = (
    _set(
        "Bibtex",
        (4_880, 2_515),
        (1_836, 159),
        (2.40, 111.71),
        notes=TEN_SPLITS,
    ),
    _set(
        "Delicious",
        (12_920, 3_185),
        (500, 983),
        (19.03, 311.61),
        notes=TEN_SPLITS,
    ),
    _set(
        "Mediamill",
        (30_993, 12_914),
        (120, 101),
        (4.38, 1902.15),
        drive_id="1YDlU9GTYSoydU1UYTNT8BpPkRw1BCnFw",
        notes=TEN_SPLITS + "The archive behind the link holds one split. The features are dense.",
    ),
    _set(
        "EURLex-4K",
        (15_539, 3_809),
        (5_000, 3_993),
        (5.31, 25.73),
        drive_id="1xWW1UykQBTD2IorVn7V8XubJatQDScol",
        notes="Another set goes by the same name: 15,449 / 3,865 points, 186,104 features and "
        "3,956 labels, made for AttentionXML. Results on the two cannot be compared.",
    ),
    _set(
        "Wiki10-31K",
        (14_146, 6_616),
        (101_938, 30_938),
        (18.64, 8.52),
        drive_id="1uV-p682ggXQQTiKZyK5M6B0xJJk8_lJx",
    ),
    _set(
        "AmazonCat-13K",
        (1_186_239, 306_782),
        (203_882, 13_330),
        (5.04, 448.57),
        drive_id="1WvBWF9hH5ZlFcpCRhp8wLVGwdeGZXKD2",
    ),
    _set(
        "AmazonCat-14K",
        (4_398_050, 1_099_725),
        (597_540, 14_588),
        (3.53, 1330.1),
        drive_id="19IhTX1_a4U5I2Q56VUkzq2jFBpwm2-n-",
    ),
    _set(
        "Delicious-200K",
        (196_606, 100_095),
        (782_585, 205_443),
        (75.54, 72.29),
        drive_id="18Tb595TuGyFW--nEYGfduwS5WvSbX-sX",
        notes="Older papers call it DeliciousLarge.",
    ),
    _set(
        "WikiLSHTC-325K",
        (1_778_351, 587_084),
        (1_617_899, 325_056),
        (3.19, 17.46),
        WIKIPEDIA_PROPENSITY,
        drive_id="1Y5xEJu-j3M7voyFV5Ouq9Wl3vyd9fus2",
    ),
    _set(
        "Wikipedia-500K",
        (1_813_391, 783_743),
        (2_381_304, 501_070),
        (4.77, 24.75),
        WIKIPEDIA_PROPENSITY,
        drive_id="1LkGdINF5coOfkm6J2xys3V1NMW7zz8U1",
        notes="AttentionXML and its followers use another cut, Wiki-500K: 1,779,881 / 769,421 "
        "points and 501,008 labels. Results on the two cannot be compared.",
    ),
    _set(
        "Amazon-670K",
        (490_449, 153_025),
        (135_909, 670_091),
        (5.45, 3.99),
        AMAZON_PROPENSITY,
        drive_id="1PV-wbKVv6Ng1K1XM1USqNxFhaQo2qfk6",
    ),
    _set(
        "Amazon-3M",
        (1_717_899, 742_507),
        (337_067, 2_812_281),
        (36.17, 31.64),
        AMAZON_PROPENSITY,
        drive_id="1ork7yeAcliD9JQiRdEx4QknhMFHjVrku",
    ),
)

PUBLIC_SETS: dict[str, PublicSet] = {public.name: public for public in _TABLE}
