"""Reconcile: keys that vanished from the source leave the target; keys that were missed come in."""

from __future__ import annotations

from dpone_dagster.campaign.contract import ColumnContract
from dpone_dagster.campaign.errors import IncrementRefused
from dpone_dagster.campaign.spec import CampaignSpec
from dpone_dagster.ports import ChangeSnapshot, KeyBucket, Target

BUCKETS = 1024


def delete_vanished(spec: CampaignSpec, target: Target, contract: ColumnContract, snapshot: ChangeSnapshot) -> int:
    """Compare key digests a bucket, then key by key where they differ; delete what the source no longer has.

    Keys that the source has and neither the target nor the stage: their rows are staged too.

    Returns:
        Rows deleted.

    Raises:
        IncrementRefused: More rows would go than the manifest's guards allow; nothing was deleted.
    """
    here = target.changes.key_buckets(spec.target, contract, BUCKETS)
    there = snapshot.key_buckets(BUCKETS)
    wanted = _differing(here, there)
    if not wanted:
        return 0
    found = target.changes.stage_keys(spec.target, contract, snapshot.keys(BUCKETS, wanted), BUCKETS, wanted)
    _guard(spec, found.extra_in_target, sum(b.keys for b in here), sum(b.keys for b in there))
    deleted = target.changes.delete_unmatched(spec.target, contract)
    if found.missing_in_target:
        target.changes.stage_rows(spec.target, contract, snapshot.rows_by_key(BUCKETS, wanted))
    return deleted


def _differing(here: list[KeyBucket], there: list[KeyBucket]) -> list[int]:
    left, right = {b.bucket: b for b in here}, {b.bucket: b for b in there}
    return sorted(bucket for bucket in left.keys() | right.keys() if left.get(bucket) != right.get(bucket))


def _guard(spec: CampaignSpec, vanishing: int, target_rows: int, source_rows: int) -> None:
    policy = spec.increment
    seen = f"{vanishing} of {target_rows} target rows are gone from the source, which has {source_rows}"
    advice = "Check the source; if it is right, raise the guard under `dagster.incremental` for this run."
    if vanishing and source_rows == 0 and not spec.allow_empty:
        raise IncrementRefused(f"the source is empty: {seen}", next_step=advice)
    if policy.max_delete_rows is not None and vanishing > policy.max_delete_rows:
        raise IncrementRefused(f"max_delete_rows is {policy.max_delete_rows}: {seen}", next_step=advice)
    if target_rows and vanishing / target_rows > policy.max_delete_fraction:
        raise IncrementRefused(f"max_delete_fraction is {policy.max_delete_fraction}: {seen}", next_step=advice)
