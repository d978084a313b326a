"""Every error the product raises on purpose: a class an error, its code, exit code and next step.

Exit codes: 0 done; 1 ran and did not succeed; 2 refused before anything was touched;
3 somebody else holds the campaign; 130 interrupted.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, at one place.

    Attributes:
        path: Where: a manifest path (`sink.strategy.unique_key`) or an object's name (`landing.orders.amount`).
        problem: What was found, in one sentence.
        advice: What to do about it.
    """

    path: str
    problem: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        """As plain data."""
        return {"path": self.path, "problem": self.problem, "advice": self.advice}

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}" if self.path else self.problem
        return f"{text} → {self.advice}" if self.advice else text


class DponeError(Exception):
    """Base of all errors; carries every finding at once, so that one run shows all that is wrong."""

    code: ClassVar[str] = "DPONE_ERROR"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    next_step: ClassVar[str] = "Run `dpone backfill doctor MANIFEST`."

    def __init__(self, message: str, *, findings: Sequence[Finding] = (), next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.findings = tuple(findings)
        self.advice = next_step or self.next_step

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}", *(f"  - {finding}" for finding in self.findings)]
        return "\n".join([*lines, f"  next: {self.advice}"])

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.findings, self.advice))

    def as_dict(self) -> dict[str, object]:
        """The error as plain data, for `--format json` and for Dagster metadata."""
        return {
            "code": self.code,
            "message": self.message,
            "findings": [finding.as_dict() for finding in self.findings],
            "next_step": self.advice,
            "retryable": self.retryable,
        }


def _rebuild(kind: type[DponeError], message: str, findings: tuple[Finding, ...], advice: str) -> DponeError:
    return kind(message, findings=findings, next_step=advice)


class Refused(DponeError):
    """Refused before anything was touched: no source row was read and nothing was created."""

    exit_code = 2


class ManifestInvalid(Refused):
    """The manifest does not fit the contract: unknown key, wrong value, or a combination that is not supported."""

    code = "MANIFEST_INVALID"
    next_step = "Correct the manifest at the named paths; `dpone manifest schema` prints the JSON Schema."


class UsageInvalid(Refused):
    """The command line does not fit the command: an unknown flag or command, a missing or wrong value."""

    code = "USAGE_INVALID"
    next_step = "Correct the command line; `--help` after the command lists its flags."


class IntervalInvalid(Refused):
    """The run has no interval, or a time of it, by flag or variable, is no time, no whole day, or before the start."""

    code = "INTERVAL_INVALID"
    next_step = "Correct the named times: --interval-start, --interval-end, --execution-date, or their variables."


class EvidenceInvalid(Refused):
    """A file of `--advisor-evidence` cannot be read, or has none of the shapes that the advisor knows."""

    code = "EVIDENCE_INVALID"
    next_step = "Name a JSON file of load steps, chunks or a certification report (docs/advisor.md has the shapes)."


class OutputUnwritable(Refused):
    """The file that a command was told to write cannot be written."""

    code = "OUTPUT_UNWRITABLE"
    next_step = "Name a file that can be written: --output FILE."


class DagsterHomeInvalid(Refused):
    """The folder of Dagster's own state cannot be used, or Dagster does not take what its dagster.yaml says."""

    code = "DAGSTER_HOME_INVALID"
    next_step = "Name a folder that can be written (DAGSTER_HOME), or mend its dagster.yaml."


class TooManyChunks(Refused):
    """The chunk window yields more chunks than `max_chunks` (or the hard limit of 1,000,000) allows."""

    code = "TOO_MANY_CHUNKS"
    next_step = "Increase `chunk.step` or `max_chunks`."


class ConnectionMissing(Refused):
    """A `connection_ref` has no URL: neither `DPONE_CONNECTION_<REF>` nor the connections file names it."""

    code = "CONNECTION_MISSING"
    next_step = "Set DPONE_CONNECTION_<REF> to a URL, or name it in the file of DPONE_CONNECTIONS_FILE."


class ConnectionInvalid(Refused):
    """A connection URL cannot be used: wrong scheme, missing part, or a server kind the manifest does not want."""

    code = "CONNECTION_INVALID"
    next_step = "Correct the URL; docs/connections.md shows the form for each server."


class DriverMissing(Refused):
    """A driver that this route needs is not installed, or a library of the system that it needs is missing."""

    code = "DRIVER_MISSING"
    next_step = "Install the named package; `make setup` installs it where it may."


class ServerUnreachable(Refused):
    """The server did not answer three times, or takes no connection now: it is starting, stopping or full."""

    code = "SERVER_UNREACHABLE"
    retryable = True
    next_step = "Check host, port, network and the server's load; then run the same command again."


class LoginRefused(Refused):
    """The server refused the login: password, database, right or encryption. It is not tried again by itself."""

    code = "LOGIN_REFUSED"
    next_step = "Correct the URL, or the login's rights on the server; then run the same command again."


class TableMissing(Refused):
    """The source table does not exist, or the login cannot see it."""

    code = "TABLE_MISSING"
    next_step = "Check schema, name and SELECT right of the source login."


class SourceIsTarget(Refused):
    """Source and target are the same table of the same database, whatever their connections are called."""

    code = "SOURCE_IS_TARGET"
    next_step = "Correct `source` or `sink`: another table, or the connection to the other database."


class TargetNotProvisioned(Refused):
    """The target table does not exist: it is created and reviewed by people, never by a campaign."""

    code = "TARGET_NOT_PROVISIONED"
    next_step = "Create the target table as reviewed, then run the same command again."


class StateNotProvisioned(Refused):
    """`state.provisioning: external` is set and the state tables are not there."""

    code = "STATE_NOT_PROVISIONED"
    next_step = "Create the state tables (docs/state.md has the script), or set `state.provisioning: auto`."


class StateVersionNewer(Refused):
    """The state tables were written by a newer program."""

    code = "STATE_VERSION_NEWER"
    next_step = "Upgrade dpone-dagster on this machine."


class StateVersionOlder(Refused):
    """The state tables are those of an older program and have to be upgraded first."""

    code = "STATE_VERSION_OLDER"
    next_step = "Upgrade them: `dpone backfill resume MANIFEST`, or the script that docs/state.md names."


class StateFileBroken(Refused):
    """A campaign's state file is torn or was edited, or it is not the state of that campaign."""

    code = "STATE_FILE_BROKEN"
    next_step = (
        "Put back the file as it was; or move it away and run again: every chunk then replaces its own slice once more."
    )


class StateFileUnusable(DponeError):
    """The folder of the state files, or a file in it, cannot be read, written or locked."""

    code = "STATE_FILE_UNUSABLE"
    next_step = "Give this user the folder, or name another one by --state-dir."


class StateElsewhere(Refused):
    """The target has a campaign that is not finished in another state schema of its database: one target has one."""

    code = "STATE_ELSEWHERE"
    next_step = "Write the named schema as `state.schema`, or finish or cancel the campaign there first."


class StateDomainSplit(Refused):
    """State and target do not prove to be one transaction domain, so a receipt could not be atomic."""

    code = "STATE_NOT_TARGET_ATOMIC"
    next_step = "Let `state.connection_ref` name the sink's own server and database."


class LockNotDistributed(Refused):
    """Session locks do not hold on this connection (a transaction pooler is in between)."""

    code = "LOCK_NOT_DISTRIBUTED"
    next_step = "Connect to the server directly, or through a pooler in session mode."


class RightsMissing(Refused):
    """The target's login lacks rights that a campaign needs; each is named."""

    code = "RIGHTS_MISSING"
    next_step = "Grant the named rights (docs/connections.md; for SQL Server deploy/mssql/setup.sql)."


class KeyInvalid(Refused):
    """Unique key or chunk column is missing, nullable or of an unfit type, or the key lacks the chunk column."""

    code = "KEY_INVALID"
    next_step = "Do what each finding advises, in the manifest or the tables; then run the same command again."


class ColumnContractRefused(Refused):
    """A source column has no exact home in the target."""

    code = "COLUMN_CONTRACT_REFUSED"
    next_step = "Change the target's type, or name a representation under `sink.columns`."


class CatalogRefused(Refused):
    """The live table has something that a swap would lose and that cannot be reproduced exactly."""

    code = "CATALOG_REFUSED"
    next_step = "Remove the named objects, or publish this table by a reviewed migration."


class ShadowForeign(Refused):
    """The shadow's name is taken by a table that this campaign does not own."""

    code = "SHADOW_FOREIGN"
    next_step = (
        "Finish the campaign that owns it; or take another `backfill_id`, with `publication.artifact_scope: campaign`; "
        "or drop it by hand if it is nobody's (docs/runbook.md says how to be sure)."
    )

    @classmethod
    def taken(cls, table: object, owner: str, role: str = "shadow") -> ShadowForeign:
        """The refusal of one name.

        Args:
            table: The name.
            owner: Run key of the campaign that owns the table; empty for no campaign.
            role: What the name is for.
        """
        named = f"campaign {owner[:12]}" if owner else "no campaign"
        return cls(f"the {role}'s name {table} is taken by a table of {named}")


class DeleteMarkUnsuitable(Refused):
    """The column that should mark deleted rows is not there, or cannot say which rows are deleted."""

    code = "DELETE_MARK_UNSUITABLE"
    next_step = "Let `dagster.incremental.soft_delete_column` name a nullable timestamp or boolean of the target."


class PlanDrift(Refused):
    """The pinned campaign exists with another plan, configuration or column contract."""

    code = "PLAN_DRIFT"
    next_step = "Use a new `backfill_id`, or restore the manifest and the tables as they were."


class SourceUnsuitable(Refused):
    """The source cannot be read as the manifest asks: no xmin, no snapshot, rows that are hidden from the login."""

    code = "SOURCE_UNSUITABLE"
    next_step = "Name an ordinary or partitioned table."


class CampaignMissing(Refused):
    """There is no campaign for this manifest yet."""

    code = "CAMPAIGN_MISSING"
    next_step = "Start it: `dpone backfill run MANIFEST --execute`."


class CampaignCancelled(Refused):
    """The campaign was cancelled; only `resume` takes it up again."""

    code = "CAMPAIGN_CANCELLED"
    next_step = "Take it up again: `dpone backfill resume MANIFEST`."


class CancelRefused(Refused):
    """The campaign is published already; a cancel comes before the publication or not at all."""

    code = "CANCEL_REFUSED"
    next_step = "To bring the table before back: `dpone backfill rollback MANIFEST`."


class FaultsRefused(Refused):
    """DPONE_FAULT is set where faults are not allowed, or names a point or an action that does not exist."""

    code = "FAULTS_REFUSED"
    next_step = "Unset DPONE_FAULT; docs/faults.md lists points and actions for tests."


class FaultInjected(DponeError):
    """A test asked for a failure at this fault point by DPONE_FAULT."""

    code = "FAULT_INJECTED"
    next_step = "Unset DPONE_FAULT, then run `dpone backfill resume MANIFEST`."


class CampaignRolledBack(Refused):
    """The campaign was published and rolled back; it is never taken up again."""

    code = "CAMPAIGN_ROLLED_BACK"
    next_step = "Start a new campaign with a new `backfill_id`."


class RollbackRefused(Refused):
    """The publication cannot be rolled back; the live table is untouched."""

    code = "ROLLBACK_REFUSED"
    next_step = "`dpone backfill status MANIFEST` shows the campaign; load the rows anew with a new `backfill_id`."


class BackupRefused(Refused):
    """The table is not proven to be this campaign's retained backup; nothing was dropped."""

    code = "BACKUP_REFUSED"
    next_step = "Look at the named table; what no receipt vouches for is dropped by people only."


class ReleaseRefused(Refused):
    """No session holds what should be released, so there is nothing to end."""

    code = "RELEASE_REFUSED"
    next_step = "`dpone backfill status MANIFEST` names who holds a lock, if anybody does."


class CampaignActive(DponeError):
    """Another run holds the campaign, its state file, or the target that both would write."""

    code = "CAMPAIGN_ACTIVE"
    exit_code = 3
    next_step = "Wait for the named run, or watch it: `dpone backfill status MANIFEST`."


class ConnectionLost(DponeError):
    """The connection broke; nothing that was in flight may be assumed done or undone."""

    code = "CONNECTION_LOST"
    retryable = True
    next_step = "Check server and network, then `dpone backfill resume MANIFEST`."


class OutcomeUnknown(DponeError):
    """COMMIT was sent and its answer never came; only the receipt tells."""

    code = "OUTCOME_UNKNOWN"
    retryable = True
    next_step = "`dpone backfill resume MANIFEST` reads the receipt under the lock and decides."


class TransientFailure(DponeError):
    """The server asked to try again: deadlock victim, serialization failure, lock time-out, shutting down."""

    code = "TRANSIENT_FAILURE"
    retryable = True
    next_step = "`dpone backfill resume MANIFEST`."


class ServerFull(DponeError):
    """A server has no space left: transaction log, data files or disk. What was in flight was rolled back."""

    code = "SERVER_FULL"
    next_step = "Make room (docs/runbook.md says how), then `dpone backfill resume MANIFEST`."


class LeaseLost(DponeError):
    """This worker no longer owns its chunk: its lock or its epoch is gone. Nothing of the try was kept."""

    code = "LEASE_LOST"
    next_step = "Nothing to repair: another worker owns the chunk. `dpone backfill status MANIFEST` shows it."


class CatalogDrift(DponeError):
    """Source, live table or shadow no longer look as they did at prepare; nothing was loaded."""

    code = "CATALOG_DRIFT"
    next_step = "Undo the change, then `dpone backfill resume MANIFEST`; or start a new campaign."


class SourceChanged(DponeError):
    """The source server is not the one the anchor was taken on, or it lags behind the anchor."""

    code = "SOURCE_CHANGED"
    next_step = "Point the connection at the original server, or start a new campaign."


class SourceTimelineChanged(SourceChanged):
    """The source is the anchor's cluster on a new timeline: a standby was promoted, or a backup was restored.

    Transactions that the old timeline had may be missing on the new one, so xmin alone would miss what they changed.
    """

    code = "SOURCE_TIMELINE_CHANGED"
    next_step = (
        "If this is the server to go on with: `dpone increment run MANIFEST --compare rows`, or materialize "
        "`incremental` with `compare: rows`. It compares every row, applies what differs and goes on from the new "
        "timeline."
    )


class ReceiptMismatch(DponeError):
    """A receipt is there that does not belong to this plan; it is never taken for a replay."""

    code = "RECEIPT_MISMATCH"
    next_step = "Do not edit state tables; start a new campaign with a new `backfill_id`."


class ValueNotRepresentable(DponeError):
    """A value has no exact home in the target column; nothing of the chunk was kept."""

    code = "VALUE_NOT_REPRESENTABLE"
    next_step = "Correct the source row, or set `on_bad_value: null` for the column under `sink.columns`."


class CountMismatch(DponeError):
    """Extracted and loaded rows of a chunk differ; nothing of the chunk was kept."""

    code = "COUNT_MISMATCH"
    next_step = "`dpone backfill resume MANIFEST`; if it comes back, look for triggers on the shadow."

    @classmethod
    def staged(cls, table: object, read: int, staged: int) -> CountMismatch:
        """The refusal of a stage.

        Args:
            table: The target.
            read: Rows that the source says it sent.
            staged: Rows in the stage.
        """
        return cls(f"{table}: {read} rows read, {staged} rows staged")


class DigestMismatch(DponeError):
    """The rows of a chunk are not in the target what they were in the source; nothing of the chunk was kept."""

    code = "DIGEST_MISMATCH"
    next_step = (
        "`dpone backfill resume MANIFEST`; if it comes back, report the types of its columns: one of them is not exact."
    )


class ChunkFailed(DponeError):
    """One chunk or more did not load; the others are committed and stay."""

    code = "CHUNK_FAILED"
    next_step = "Mend the cause, then `dpone backfill resume MANIFEST`."


class ValidationBlocked(DponeError):
    """The shadow is not proven equal to what was read, or a chunk would empty its range of the live table.

    The live table is untouched.
    """

    code = "VALIDATION_BLOCKED"
    next_step = (
        "Do what `dpone backfill status MANIFEST` says: it names each red check, and each chunk that was kept from "
        "emptying its range, with its own next step; `allow_empty: true` where the source is meant to be empty."
    )
    UNIQUE_KEYS: ClassVar[str] = "Mend the source's keys, or the collation of the target's; then load again."

    @classmethod
    def repeated_keys(cls, table: object, keys: int) -> ValidationBlocked:
        """The refusal of what was read.

        Args:
            table: The target.
            keys: How many came more than once.
        """
        return cls(
            f"{keys} keys of {table} came more than once from the source, as the target compares keys",
            next_step=cls.UNIQUE_KEYS,
        )


class PublicationBlocked(DponeError):
    """The swap could not be made now; the live table is untouched and nothing has to be reloaded."""

    code = "PUBLICATION_BLOCKED"
    next_step = "End the named blocker, then `dpone backfill resume MANIFEST`."


class GenerationStale(DponeError):
    """The live table is no longer the generation this campaign was prepared against."""

    code = "GENERATION_STALE"
    next_step = "Start a new campaign with a new `backfill_id` against the present live table."


class HandoffRefused(Refused):
    """The handoff cannot be bound: it names another source or target, or another publication owns the head."""

    code = "HANDOFF_REFUSED"
    next_step = "Use the `handoff_id` of this source and target, or a new one."


class HandoffMissing(Refused):
    """No handoff is committed for the live generation, so increments have nothing to start from."""

    code = "HANDOFF_MISSING"
    next_step = "Finish the campaign: `dpone backfill resume MANIFEST`."


class IncrementRefused(DponeError):
    """The increment cannot be exact from the stored watermark; nothing was changed."""

    code = "INCREMENT_REFUSED"
    next_step = "Start a new initial campaign with a new `backfill_id`."


class RewindRefused(Refused):
    """The checkpoint cannot be rewound to there; it stays where it is."""

    code = "REWIND_REFUSED"
    next_step = "`dpone state inspect` with the same target lists where it can go back to."


class TargetUnknown(Refused):
    """No manifest of this project loads that target, or several do into different databases."""

    code = "TARGET_UNKNOWN"
    next_step = "Name the manifest: `--manifest FILE`; or set DPONE_MANIFESTS."


class UniqueConflict(DponeError):
    """A row breaks a unique index of the target: in a chunk of a `direct` campaign, or in an increment.

    An increment has then settled deleted keys first, and it did not help.
    """

    code = "UNIQUE_CONFLICT"
    next_step = (
        "A chunk's range may be loaded already: load it by `inner_mode: replace` or `incremental_merge` with a new "
        "`backfill_id`, or delete those rows; `dpone backfill status MANIFEST` says which. For an increment, make the "
        "same columns unique in the source, or drop the target's index; then run it again."
    )


class NotificationFailed(DponeError):
    """An alert could not be sent by a channel; it is kept, and sent again with the next tick."""

    code = "NOTIFICATION_FAILED"
    next_step = "Check the channel's server and its DPONE_NOTIFY_ variable; nothing is lost meanwhile."


class WatchFailed(DponeError):
    """A database could not be looked at, so nothing is known of its campaigns; the others were looked at."""

    code = "WATCH_FAILED"
    next_step = "Check the named connections; alerts go on by themselves."


class StoppedByPeer(DponeError):
    """A chunk failed elsewhere in this campaign, so this lane claims no more."""

    code = "STOPPED"
    next_step = "Mend the failed chunk's cause, then `dpone backfill resume MANIFEST`."


class Interrupted(DponeError):
    """The run was told to stop; the chunk in hand was rolled back or is committed, never half."""

    code = "INTERRUPTED"
    exit_code = 130
    next_step = "`dpone backfill resume MANIFEST`."


def next_step_of(code: str) -> str | None:
    """What to do about an error that only its code is known of; None for a code that is none of ours.

    Args:
        code: Such as `CHUNK_FAILED`.
    """
    return _next_steps().get(code)


@functools.cache
def _next_steps() -> Mapping[str, str]:
    kinds = [DponeError]
    for kind in kinds:  # grows while it is walked through
        kinds += kind.__subclasses__()
    return {kind.code: kind.next_step for kind in kinds if "code" in vars(kind)}
