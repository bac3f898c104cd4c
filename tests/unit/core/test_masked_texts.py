"""Masking: addresses, phone numbers and ids are hidden wherever people read them; prices, years and dates are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epigram.core import masking
from epigram.core.masking import Kind, masked, masked_parts
from epigram.core.settings import read_params
from epigram.process.display import echo, escape_markdown
from epigram.process.exits import print_error
from epigram.process.outcome import OUTCOME_FILE, read_outcome
from epigram.report.page import report_environment

HIDDEN: dict[Kind, list[str]] = {
    "email": ["a.b-c+d@mail.example.co.uk", "请联系zhang.san@qq.com谢谢", "write to xenia@y.io."],
    "phone": [
        *("call +1 (415) 555-2671 now", "+49 30 901820", "+442079460958", "0086 13800138000", "86-10-62345678"),
        *("电话13800138000。", "+86 138 0013 8000", "138-0013-8000", "wx13800138000", "１３８００１３８０００"),
        *("010-62345678", "(0571) 8765 4321", "0755 2345678转801", "400-820-8820", "020 7946 0958", "415-555-2671"),
    ],
    "id": [
        *("身份证号11010119900307775x", "110101199003077758", "order 1234567890", "078-05-1120"),
        *("4111 1111 1111 1111", "6222 0212 3456 7890 123", "4111-1111-1111-1111", "3782 822463 10005"),
        *("GB29 NWBK 6016 1331 9268 19", "DE89370400440532013000"),
    ],
}
SHOWN = [
    *(
        "it costs 1,299.00 or 12999 yuan in 2024",
        "价格199元，2023年12月11日",
        "第1234567号",
        "$100,000,000",
        "10.000.000",
    ),
    *("2026-11-28 09:37:12", "07-08-2026 12:30", "07.08.2026 12 30", "20261128", "2008-2012-2016"),
    *("2010 2011 2012 2013", "0.123456789", "3.14159265358979", "1,234,567,890", "200 300 4000", "iPhone 13 Pro 256"),
    *("runs/pocket_zh-20261128-093700/model", "rated 10/10 at 8:30", "@home & AT&T", "v1.2.3-20240101", "555 1234"),
]
SECRET, DOTS = "ask li@qq.com or 13800138000", "ask ••@••.••• or •••••••••••"


@pytest.fixture
def hidden() -> Iterator[None]:
    with masking.masking(["email", "phone", "id"]):
        yield


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in HIDDEN.items() for text in texts])
def test_what_is_masked_has_no_letter_and_no_digit_left(kind: Kind, text: str) -> None:
    assert masked(text) == text
    with masking.masking([kind]):
        found = masked(text)
    changed = [one for one, other in zip(text, found, strict=True) if one != other]
    assert len(changed) >= 7 and not any(each.isdigit() for each in found) and "@" not in found.replace("•@•", "")


@pytest.mark.parametrize("text", SHOWN)
@pytest.mark.usefixtures("hidden")
def test_prices_years_dates_and_names_are_not_masked(text: str) -> None:
    assert masked(text) == text


@pytest.mark.usefixtures("hidden")
def test_the_beginning_of_an_address_before_a_cut_is_masked() -> None:
    assert masked("ask john.smi…") == "ask ••••.•••…" and masked("电话138 0013 8…") == "电话••• •••• •…"


@pytest.mark.usefixtures("hidden")
def test_an_address_in_several_parts_is_masked() -> None:
    assert masked_parts(["拨打138", "0013", "8000吧"], "") == ["拨打•••", "••••", "••••吧"]


@pytest.mark.usefixtures("hidden")
def test_all_that_people_read_is_masked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Printed lines, errors, outcomes, Markdown, and templates with and without coloured words."""
    monkeypatch.setenv(OUTCOME_FILE, str(tmp_path / "outcome"))
    echo(SECRET)
    print_error(ValueError(SECRET))
    printed = capsys.readouterr()
    assert printed.out == f"{DOTS}\n" and DOTS in printed.err
    assert DOTS in (tmp_path / "outcome").read_text(encoding="utf-8").encode().decode("unicode-escape")
    assert (outcome := read_outcome(tmp_path / "outcome")) and DOTS in outcome.message
    assert escape_markdown(SECRET) == DOTS.replace("@", r"\@")
    template = report_environment().from_string(
        "{{ text }}|{{ text|marked(words) }}|{{ text|truncate(22, true, '…', 0) }}"
    )
    plain, coloured, cut = template.render(text=SECRET, words=[(4, 13, 1.0)]).split("|")
    assert plain == DOTS and coloured == 'ask <mark class="for" style="--s:1.00">••@••.•••</mark> or •••••••••••'
    assert cut == "ask ••@••.••• or ••••…"


@pytest.mark.parametrize(("section", "out"), [("{mask: [phone]}", "li@qq.com or •••"), ("{}", SECRET), ("[]", SECRET)])
def test_the_setting_of_a_project_is_the_setting_of_the_process(tmp_path: Path, section: str, out: str) -> None:
    (tmp_path / "params.yaml").write_text(f"dataset: a\nreport: {section}\n", encoding="utf-8")
    read_params(tmp_path / "params.yaml")
    assert out in masked(SECRET)
