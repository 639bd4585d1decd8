"""Tokens recognised by their shape alone: the prefixes of each issuer's tokens.

A shape is *certain* if no other text has its prefix: `ghp_`, `sk-ant-`, `AKIA` and some 80 more.
The others (`re_`, `s.`, a JWT) are guesses: source code and test data hold lookalikes. Knows
nothing about names: `password=` is for `assignments`. The facts come from the issuers. Pure, and
linear in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from taofold.core.late_patterns import late

Span: TypeAlias = tuple[int, int]

_WORD: Final = r"[0-9A-Za-z]"
_LINE: Final = r"[0-9A-Za-z_\-]"
_DOTS: Final = r"[0-9A-Za-z_\-.]"
_BASE: Final = r"[0-9A-Za-z+/_\-]"

ISSUED: Final = (
    # prefixes, the characters that follow, their minimum number
    # code hosting and registries
    ("ghp_ gho_ ghu_ ghs_ ghr_", _WORD, 20),
    ("github_pat_", r"\w", 20),
    (
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- glffct- glwt-",
        _DOTS,
        16,
    ),
    ("GR1348941", _LINE, 16),
    ("ATATT3 ATCTT3 ATBB ATTA", r"[0-9A-Za-z_\-=]", 24),
    ("npm_", _WORD, 30),
    ("pypi-", _LINE, 50),
    ("rubygems_ CLOJARS_", _WORD, 40),
    ("dckr_pat_ dckr_oat_", _LINE, 20),
    ("oy2", r"[0-9a-z]", 43),
    ("AKC cmVmd", _WORD, 10),
    ("sgp_ slk_", r"\w", 40),
    ("squ_ sqp_ sqa_ sqco_", _WORD, 40),
    ("CCIPAT_ CCIPRJ_", r"\w", 30),
    ("bkua_ bkct_ bkpt_", _WORD, 30),
    ("PMAK-", r"[0-9A-Za-z\-]", 30),
    # models
    ("sk- pk- rk-", _LINE, 16),
    (
        "gsk_ hf_ xai- pplx- r8_ fw_ api_org_ jina_ nvapi- tgp_v1_ lsv2_ pcsk_ csk- rpa_ esecret_",
        _LINE,
        20,
    ),
    ("AIza", _LINE, 35),
    # clouds
    ("AGPA AIDA AROA ANPA ANVA AIPA APKA", r"[0-9A-Z]", 16),
    ("ABSK bedrock-api-key-", r"[0-9A-Za-z+/=]", 40),
    ("ya29. GOCSPX-", _LINE, 20),
    ("1//0", _LINE, 30),
    ("LTAI AKID", _WORD, 20),
    ("AQVN t1.9eu", _DOTS, 30),
    ("dop_v1_ doo_v1_ dor_v1_", _WORD, 40),
    ("HRKU-", _LINE, 30),
    ("dapi", r"[0-9a-f\-]", 32),
    ("pscale_tkn_ pscale_oauth_ pscale_pw_", r"[\w=.\-]", 30),
    ("fo1_ fm1a_ fm1r_ fm2_", r"[0-9A-Za-z+/_=\-]", 40),
    ("nfp_ nfc_ nfo_ nfu_ nfb_ vcp_ vck_ vci_ napi_ sbp_ sb_secret_ rnd_", r"\w", 30),
    ("tskey-", _LINE, 20),
    ("v1.0-", r"[0-9a-f\-]", 100),
    ("hvs. hvb. hvr.", _LINE, 24),
    ("s.", _WORD, 24),
    ("sha256~", _LINE, 40),
    ("pul- pnu_ ico- tk-us- p8e-", _LINE, 30),
    ("dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", _DOTS, 40),
    ("dt0c01. dt0s01. dt0s02. dt0s16.", _DOTS, 60),
    ("NRAK- NRAL- NRJS- NRSP- NRIQ- NRII-", _LINE, 18),
    ("eyJrIjoi glc_ glsa_", r"[0-9A-Za-z+/=_]", 32),
    ("sntrys_ sntryu_ sntrya_", r"[0-9A-Za-z+/=_]", 40),
    ("phx_ phs_", _WORD, 30),
    ("lin_api_ lin_oauth_", _WORD, 30),
    ("ops_eyJ", _BASE, 100),
    ("A3-", r"[0-9A-Z\-]", 30),
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]", 50),
    ("API-", r"[0-9A-Z]", 24),
    ("4b1d", _WORD, 38),
    ("pat. sat.", _DOTS, 60),
    # talk, mail, work
    (
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxc- xoxd- xoxe- xoxe.xoxp- xoxe.xoxb- xapp-",
        r"[0-9A-Za-z\-%]",
        10,
    ),
    ("SG.", r"[0-9A-Za-z=_\-.]", 40),
    ("xkeysib- xsmtpsib-", _LINE, 40),
    ("key-", r"[0-9a-f]", 32),
    ("re_", r"\w", 24),
    (
        "figd_ figu_ tfp_ rdme_ duffel_test_ duffel_live_ fio-u- CFPAT- apify_api_ salad_cloud_",
        r"[\w=\-]",
        24,
    ),
    ("ntn_ secret_", _WORD, 40),
    ("patn- pat-na1- pat-eu1- pat-na2- pat-na3-", _LINE, 30),
    ("sm_aat_ sm_pat_ sm_sat_", _WORD, 16),
    ("s-s4t2ud- s-s4t2af-", _WORD, 60),
    ("sl.", _LINE, 60),
    ("EAAC EAAM EAAB EAAD EAAE EAAJ EAAG IGQV", _WORD, 60),
    # money
    ("sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_", _WORD, 10),
    ("sq0atp- sq0csp- sq0idp- EAAA", _LINE, 22),
    ("shpat_ shpca_ shppa_ shpss_ shptka_ shpua_", _WORD, 30),
    ("shippo_live_ shippo_test_", _WORD, 30),
    ("EZAK EZTK", _WORD, 50),
    ("FLWSECK_TEST- FLWPUBK_TEST- FLWSECK- FLWPUBK-", _LINE, 12),
    ("access_token$production$ access_token$sandbox$", r"[0-9a-z$]", 30),
    ("access-sandbox- access-development- access-production-", r"[0-9a-f\-]", 30),
    ("test_pub_ live_pub_ test_sec_ live_sec_", _WORD, 30),
)
"""Grouped by industry."""
_COMMON: Final = frozenset(
    (
        *("sk-", "pk-", "rk-", "key-", "s.", "re_", "secret_", "pat.", "sat.", "API-"),
        *("sl.", "fw_", "A3-", "AKC"),
    )
)
"""Prefixes that other words have too: the following text must not be made of words."""

_CERTAIN_OPENINGS: Final = """
    ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glcbt- glptt- glft- glsoat- gloas-
    ATATT3 ATCTT3 npm_ pypi- rubygems_ dckr_pat_ dckr_oat_ sgp_ PMAK- AIza
    ya29. GOCSPX- dop_v1_ doo_v1_ dor_v1_ HRKU- pscale_tkn_ pscale_oauth_ pscale_pw_
    tskey- hvs. hvb. hvr. sha256~ dp.pt. dp.st. dt0c01. dt0s01. NRAK- glsa_ sntrys_ sntryu_
    lin_api_ lin_oauth_ ops_eyJ AGE-SECRET-KEY-1 xoxb- xoxp- xoxa- xoxr- xoxs- xoxe.xoxp-
    xoxe.xoxb- xapp- SG. xkeysib- xsmtpsib- figd_ CFPAT- duffel_live_ sk_live_ rk_live_ whsec_
    sq0atp- sq0csp- shpat_ shpca_ shppa_ shpss_ shippo_live_ nvapi- xai- pplx-
    access_token$production$ access-production-
"""
CERTAIN: Final = frozenset(_CERTAIN_OPENINGS.split())
"""Prefixes in `ISSUED` that no other text has before so many characters."""
_CERTAIN: Final = late(
    r"""
      (?:AKIA|ASIA|ABIA)(?![0-9A-Z]{9}EXAMPLE)[0-9A-Z]{16}(?![0-9A-Za-z])
    | sk-(?:ant|proj|svcacct|admin|or|lf)-[0-9A-Za-z_\-]{20,4096}
    | sk-[0-9A-Za-z]{20,512}
    | (?:hf_|gsk_|r8_|tgp_v1_)[0-9A-Za-z]{30,512}
    | tf_[0-9a-f]{8}_[0-9A-Za-z_\-]{40,48}
    """,
    re.VERBOSE,
)
"""The same for shapes that are narrower than in `ISSUED`."""
_PLACEHOLDER: Final = late(r"[xX0.*_\-]*\Z")

_SPECIAL: Final = late(
    r"""
      (?:A3T[0-9A-Z]|A[A-Z]{3}(?<=AKIA|ASIA|ABIA|ACCA))[0-9A-Z]{16}(?![0-9A-Za-z])
    | ey[A-Za-z0-9_\-]{10,4096}\.(?:ey[A-Za-z0-9_\-/]{10,8192}(?:\.[A-Za-z0-9_\-/]{5,1024}={0,2})?
        |[A-Za-z0-9_\-/]{10,8192}\.[A-Za-z0-9_\-/]{5,1024}={0,2})
    | (?:SK|AC|AP)[0-9a-f]{32}(?![0-9A-Za-z])
    | [0-9]{8,10}:AA[0-9A-Za-z_\-]{32,35}
    | [MNO][A-Za-z0-9]{23,27}\.[A-Za-z0-9_\-]{6,7}\.[A-Za-z0-9_\-]{27,40}
    | [0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])
    | pat[0-9A-Za-z]{14}\.[0-9a-f]{64}
    | [0-9A-Za-z]{14}\.atlasv1\.[0-9A-Za-z=_\-]{60,72}
    | [0-9A-Za-z_~.]{0,3}[0-9]Q~[0-9A-Za-z_~.\-]{31,36}
    | [0-9A-Za-z]{6}_[0-9A-Za-z]{29}_mmk
    | [0-9]{15,16}(?:\||%7C)[0-9A-Za-z_\-]{27,40}
    | (?:sc|ext|scauth|authress)_[0-9a-z]{5,30}\.[0-9a-z]{4,6}
        \.acc[_\-][0-9a-z\-]{10,32}\.[0-9A-Za-z+/_=\-]{30,120}
    | (?:api|sdk|mob)-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}
    | tf_[0-9a-f]{8}_[0-9A-Za-z_\-]{40,48}
    """,
    re.VERBOSE,
)
"""Shapes with a mark in the middle or at the end. The last is taofold's own server's."""


def _tree(words: list[str]) -> str:
    """Returns one expression for all words, which decides each character once."""
    heads: dict[str, list[str]] = {}
    for word in words:
        heads.setdefault(word[:1], []).append(word[1:])
    rests = [re.escape(head) + _tree(rest) for head, rest in heads.items() if head]
    if "" in heads:
        return f"(?:{'|'.join(rests)})?" if rests else ""
    return rests[0] if len(rests) == 1 else f"(?:{'|'.join(rests)})"


_RESTS: Final = {
    # Bounded repetition: an endless run of letters is read once, not once per prefix.
    opening: late(f"{rest}{{{least},{512 if opening in _COMMON else 4096}}}")
    for openings, rest, least in ISSUED
    for opening in openings.split()
}
_OPENINGS: Final = late(lambda: _tree(sorted(_RESTS)))
LONG: Final = late(r"[0-9A-Za-z_\-]{15,}")
"""Part of every token: a text without such a run has none."""
LONG_AHEAD: Final = late(r"(?:[0-9A-Za-z_\-]{0,14}+[^0-9A-Za-z_\-]++)*+[0-9A-Za-z_\-]{15}")
"""Matches a text with such a run, three times as fast as a search."""
_BEFORE: Final = 24
"""Characters before a long run in which its token may begin: `xoxe.`, `dp.pt.`, `123456789:`."""
_WORDS: Final = late(r"(?<![0-9A-Za-z])[0-9A-Za-z_]")
_RUN: Final = late(r"[0-9A-Za-z]{20}")
_VARIED: Final = late(r"(?=.*[a-z])(?=.*[0-9A-Z])|(?=.*[0-9])(?=.*[A-Z])", re.DOTALL)
_HEAD: Final = 64
"""Characters of a token that are examined for words."""
_DISTINCT: Final = 5
"""Minimum number of different characters in a token: fewer are a placeholder, `sk-xxxxxxxx`."""


def tokens(text: str, *, certain: bool = False) -> Iterator[Span]:
    """Yields the spans of tokens in `text`, in order; `certain` limits them to certain shapes."""
    end_of = _certain_end if certain else _end
    end = 0
    for run in LONG.finditer(text):
        start, stop = run.span()
        # A token may reach over several runs (dots, slashes): the covered text is not searched
        # again.
        if stop <= end:
            continue
        for word in _WORDS.finditer(text, max(end, start - _BEFORE), stop):
            begin = word.start()
            if begin >= end and (found := end_of(text, begin)):
                yield begin, found
                end = found


def _end(text: str, start: int) -> int:
    """Returns the end of the token that begins here; 0 if none does."""
    opened = _OPENINGS.match(text, start)
    if opened is not None:
        rest = _RESTS[opened.group()].match(text, opened.end())
        if rest is not None:
            head = min(rest.end(), rest.start() + _HEAD)
            if opened.group() not in _COMMON or solid(text, rest.start(), head):
                return rest.end()
    special = _SPECIAL.match(text, start)
    return special.end() if special else 0


def _certain_end(text: str, start: int) -> int:
    """Returns the same for tokens whose shape is certain."""
    opened = _OPENINGS.match(text, start)
    if opened is not None and opened.group() in CERTAIN:
        rest = _RESTS[opened.group()].match(text, opened.end())
        if rest is not None and _is_drawn(text, rest.start(), rest.end()):
            return rest.end()
    special = _CERTAIN.match(text, start)
    if special is None or not _is_drawn(text, special.start() + _PREFIX, special.end()):
        return 0
    return special.end()


_PREFIX: Final = 3
"""Minimum prefix length of the shapes in `_CERTAIN`, in characters."""


def _is_drawn(text: str, start: int, stop: int) -> bool:
    """Returns whether the token is neither a placeholder (`xxxx`) nor words (`xoxb-your-token`)."""
    head = min(stop, start + _HEAD)
    return solid(text, start, head) and _PLACEHOLDER.match(text, start, head) is None


def solid(text: str, start: int, stop: int) -> bool:
    """Returns whether `text[start:stop]` is varied, or one long run."""
    return varied(text, start, stop) or _RUN.match(text, start, stop) is not None


def varied(text: str, start: int, stop: int) -> bool:
    """Returns whether `text[start:stop]` mixes kinds of characters, and enough of them."""
    return _VARIED.match(text, start, stop) is not None and len(set(text[start:stop])) >= _DISTINCT
