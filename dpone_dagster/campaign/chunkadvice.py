"""What to do about a chunk that failed: state keeps the error's code, and the campaign's kind tells the rest."""

from __future__ import annotations

from dpone_dagster.campaign.errors import DponeError, next_step_of
from dpone_dagster.campaign.slices import ACTIONS, ADVICE
from dpone_dagster.campaign.spec import CampaignSpec

_DIED = "Nobody works on it: whoever is at work next takes it, `dpone backfill resume MANIFEST`."


def advice_on_chunk(spec: CampaignSpec, code: str | None) -> str:
    """The next step of a chunk's error.

    Args:
        spec: The campaign.
        code: As its row has it; None where its worker died.
    """
    if code is None:
        return _DIED
    own = ADVICE[ACTIONS[spec.inner_mode]] if spec.direct else {}
    return own.get(code) or next_step_of(code) or DponeError.next_step
