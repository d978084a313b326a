"""What went wrong in a run, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_dagster.campaign.errors import DponeError, next_step_of


@dataclass(frozen=True)
class Failure:
    """One thing that went wrong.

    Attributes:
        place: `chunk 7`, or the step.
        code: Stable code of the error.
        message: What happened.
        advice: What to do about it.
    """

    place: str
    code: str
    message: str
    advice: str

    def as_dict(self) -> dict[str, str]:
        """As plain data."""
        return {"place": self.place, "code": self.code, "message": self.message, "next_step": self.advice}


def advice_of(code: str | None) -> str:
    """The next step of an error code."""
    return next_step_of(code or "") or DponeError.next_step
