"""What a failed increment advises: never to resume a campaign, unless a campaign is what is unfinished."""

from __future__ import annotations

import pytest

from dpone_dagster.campaign import errors
from dpone_dagster.campaign.errors import DponeError
from dpone_dagster.engine.advice import advice_for_increments

# Of a campaign's own steps; the two others are an increment's too, and the campaign's command is what they need.
OF_CAMPAIGNS = {"CAMPAIGN_CANCELLED", "CHUNK_FAILED", "DIGEST_MISMATCH", "FAULT_INJECTED", "STOPPED"}
OF_CAMPAIGNS |= {"HANDOFF_MISSING", "STATE_VERSION_OLDER"}
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DponeError)]


def advice_of(error: DponeError) -> str:
    with pytest.raises(DponeError) as caught, advice_for_increments():
        raise error
    return caught.value.advice


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.code not in OF_CAMPAIGNS])
def test_no_increment_advises_to_resume_a_campaign(kind: type[DponeError]) -> None:
    assert "dpone backfill resume" not in advice_of(kind("x"))


def test_what_an_error_knows_better_stays() -> None:
    assert advice_of(errors.TransientFailure("x", next_step="Do this.")) == "Do this."
    assert "run the increment again" in advice_of(errors.TransientFailure("x"))
