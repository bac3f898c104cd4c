"""Times of rows, as a table writes them."""

from __future__ import annotations

import polars as pl

DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y年%m月%d日", "%d.%m.%Y")
CLOCKS = ("", " %H:%M", " %H:%M:%S%.f", "T%H:%M", "T%H:%M:%S%.f")
DAY_FIRST, MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"


def parse_times(values: pl.Series) -> pl.Series:
    """Return each time in seconds (Float64) if all are dates, or as it is if all are numbers; null if it is neither.

    Times without a zone are in UTC. 03/04/2024 is null unless other values tell whether the day or the month is first.
    """
    numbers = values.cast(pl.Float64, strict=False)
    if (numbers.is_finite().fill_null(value=False) | values.is_null()).all():
        return numbers
    zoned = (
        pl.col("time").str.to_datetime("%+", strict=False, time_unit="us", time_zone="UTC").dt.replace_time_zone(None)
    )
    known = pl.coalesce(zoned, *(_parse(date + clock) for date in DATES for clock in CLOCKS))
    readings = [
        values.to_frame("time")
        .select(_seconds(pl.coalesce(known, *(_parse(order + clock) for clock in CLOCKS))))
        .to_series()
        for order in (DAY_FIRST, MONTH_FIRST)
    ]
    day_first, month_first = readings
    if day_first.null_count() != month_first.null_count():
        return min(readings, key=pl.Series.null_count)
    return day_first.set(day_first.ne_missing(month_first), None)


def _parse(form: str) -> pl.Expr:
    return pl.col("time").str.to_datetime(form, strict=False, time_unit="us")


def _seconds(time: pl.Expr) -> pl.Expr:
    return time.dt.timestamp("us") / 1e6
