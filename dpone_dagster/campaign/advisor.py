"""The advisor: what the evidence says about step and lanes. It recommends; it never changes a campaign."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dpone_dagster.campaign.evidence import Evidence
from dpone_dagster.campaign.ledger import LEASE_TTL_SECONDS
from dpone_dagster.campaign.spec import CampaignSpec

Profile = Literal["balanced", "worker_safety", "source_safety", "speed"]
Risk = Literal["low", "medium", "high"]

# How many lanes a profile goes up to, whatever the evidence says.
LANE_CAP: Mapping[Profile, int] = {"balanced": 4, "worker_safety": 1, "source_safety": 1, "speed": 8}
_ENOUGH_CHUNKS = 10
_EMPTY_SHARE = 0.5
_FAST_SECONDS = 2.0
_WANTED_SECONDS = 10.0
_MOST_AT_ONCE = 8
_BACKFILL = "sink.strategy.backfill"
_STEP = re.compile(r"(\d+)([a-z]*)", re.ASCII)


@dataclass(frozen=True)
class Advice:
    """What to try next.

    Attributes:
        profile: Whom it spares.
        recommendation: The most important thing, in a stable word.
        risk: Of running on as it is.
        step: A longer step; None to leave it.
        buckets: Fewer chunks, for kind uuid; None likewise.
        lanes: How many at most.
        warnings: What speaks for it, in sentences.
        overrides: The same as values by manifest path; nothing applies them.
        evidence: What it is drawn from.
    """

    profile: Profile
    recommendation: str
    risk: Risk
    step: str | None
    buckets: int | None
    lanes: int
    warnings: tuple[str, ...]
    overrides: Mapping[str, str | int]
    evidence: Evidence

    def as_dict(self) -> dict[str, object]:
        """The `advisor` object of the public JSON."""
        return {
            "profile": self.profile,
            "recommendation": self.recommendation,
            "risk": self.risk,
            "recommended_step": self.step,
            "recommended_buckets": self.buckets,
            "recommended_max_parallel_chunks": self.lanes,
            # Leases last 90 s whatever the manifest says, so there is nothing to extend.
            "recommended_lease_ttl_minutes": None,
            "warnings": list(self.warnings),
            "recommended_overrides": dict(self.overrides),
            "evidence_sources": list(self.evidence.sources),
            "evidence": self.evidence.as_dict(),
        }


@dataclass(frozen=True)
class _Rule:
    """Something that speaks against more lanes."""

    recommendation: str
    risk: Risk
    lanes: int
    warning: str


def advise(spec: CampaignSpec, profile: Profile, evidence: Evidence) -> Advice:
    """What the evidence says.

    Args:
        spec: The campaign as it is.
        profile: Whom to spare.
        evidence: What is known; nothing of it is needed.
    """
    held = list(_against_more_lanes(spec, evidence))
    cap = LANE_CAP[profile]
    factor = 1 if any(rule.risk == "high" for rule in held) else _longer(evidence)
    lanes = min([cap, max(1, spec.plan.count // factor), *(rule.lanes for rule in held)])
    step, buckets = _wider(spec, factor)
    word, risk = _most_important(spec, held, factor, lanes)
    overrides: dict[str, str | int] = {}
    if step is not None:
        overrides[f"{_BACKFILL}.chunk.step"] = step
    if buckets is not None:
        overrides[f"{_BACKFILL}.chunk.buckets"] = buckets
    if lanes != spec.lanes:
        overrides[f"{_BACKFILL}.parallel_workers"] = lanes
    warnings = (*(rule.warning for rule in held), *_warnings(spec, profile, evidence, factor, lanes))
    return Advice(profile, word, risk, step, buckets, lanes, warnings, overrides, evidence)


def _against_more_lanes(spec: CampaignSpec, seen: Evidence) -> Iterator[_Rule]:
    """The most important first."""
    if seen.failed_matrix_reports:
        said = (
            f"{seen.failed_matrix_reports} certification reports are red, with {seen.failed_matrix_cases} failed cases"
        )
        yield _Rule("resolve_vendor_certification_failures", "high", 1, f"{said}: mend them before tuning anything")
    if seen.failed_chunks:
        said = f"{seen.failed_chunks} chunks have failed: retry them with one lane, then look again"
        yield _Rule("reduce_to_one_lane", "medium", 1, said)
    if seen.lease_expired_chunks:
        said = f"{seen.lease_expired_chunks} chunks lost their worker: `dpone backfill doctor MANIFEST` names it"
        ttl = f"leases last {LEASE_TTL_SECONDS} s, renewed meanwhile, and `lease_ttl_minutes` does not extend them"
        yield _Rule("look_at_lost_workers", "medium", spec.lanes, f"{said}; {ttl}")
    read, finalize = (seen.stage_rates.get(stage) for stage in ("source_read", "sink_finalize"))
    if read is not None and finalize is not None and finalize < read:
        said = (
            f"sink_finalize does {finalize:,.0f} rows/s and source_read {read:,.0f}: more lanes only wait for the sink"
        )
        yield _Rule("keep_lanes", "low", spec.lanes, said)


def _longer(seen: Evidence) -> int:
    """How many chunks might be one: where most are empty, or where they are small, fast and stable."""
    if seen.committed_chunks < _ENOUGH_CHUNKS or seen.failed_chunks or seen.lease_expired_chunks:
        return 1
    if seen.empty_chunks >= _EMPTY_SHARE * seen.committed_chunks:
        full = max(1, seen.committed_chunks - seen.empty_chunks)
        return min(_MOST_AT_ONCE, max(2, seen.committed_chunks // full))
    median = seen.median_chunk_seconds
    if median is None or median >= _FAST_SECONDS or seen.retried_chunks:
        return 1
    return int(min(_MOST_AT_ONCE, max(2.0, _WANTED_SECONDS / max(median, 0.001))))


def _wider(spec: CampaignSpec, factor: int) -> tuple[str | None, int | None]:
    chunk = spec.chunk
    if factor == 1:
        return None, None
    if chunk.kind == "uuid":
        return None, max(1, (chunk.buckets or 1) // factor)
    match = _STEP.fullmatch(chunk.step or "")
    return (f"{int(match[1]) * factor}{match[2]}" if match else None), None


def _most_important(spec: CampaignSpec, held: list[_Rule], factor: int, lanes: int) -> tuple[str, Risk]:
    if held and held[0].risk != "low":
        return held[0].recommendation, held[0].risk
    if factor > 1:
        return ("decrease_buckets" if spec.chunk.kind == "uuid" else "increase_step"), "low"
    if lanes != spec.lanes:
        return ("increase_lanes" if lanes > spec.lanes else "decrease_lanes"), "low"
    return (held[0].recommendation if held else "keep"), "low"


def _warnings(spec: CampaignSpec, profile: Profile, seen: Evidence, factor: int, lanes: int) -> Iterator[str]:
    if not seen.sources:
        yield "there is no evidence yet: this is what the profile starts with"
    if factor > 1:
        empty = seen.empty_chunks >= _EMPTY_SHARE * seen.committed_chunks
        median = seen.median_chunk_seconds
        told = f"{seen.empty_chunks:,} of them are empty" if empty else f"the median takes {median:,.2f} s"
        yield f"of {seen.committed_chunks:,} chunks that succeeded {told}: {factor} might be one"
        yield "another step is another campaign: take a new `backfill_id`, never that of a campaign that has begun"
    if profile == "speed" and lanes > spec.lanes:
        yield "more lanes press on the source: be sure that it has room"
    if profile in ("worker_safety", "source_safety") and spec.lanes > 1:
        yield f"profile {profile} loads one chunk at a time"
