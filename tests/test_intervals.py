"""Half the width of a normal interval, against published quantiles."""

import pytest

from bntricks.intervals import normal_quantile


@pytest.mark.parametrize(("among", "quantile"), [(1, 1.959964), (2, 2.241403), (5, 2.575829)])
def test_an_interval_among_several_is_wider(among, quantile):
    assert normal_quantile(among) == pytest.approx(quantile, abs=1e-6)
