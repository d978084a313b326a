-- name: count
SELECT /* dpone:count */ COUNT_BIG(*) FROM {table}

-- name: key_quality
-- GROUP BY compares by each column's own collation, as the unique index will. A group's surplus rows are counted.
SELECT /* dpone:key_quality */
    (SELECT COUNT_BIG(*) FROM {table} WHERE {any_null}) AS null_keys,
    (SELECT COALESCE(SUM(d.surplus), 0) FROM (
        SELECT COUNT_BIG(*) - 1 AS surplus FROM {table} WHERE {none_null} GROUP BY {key} HAVING COUNT_BIG(*) > 1
    ) AS d) AS duplicate_keys

-- name: count_surplus
-- Rows that are one too many of their key, as one unique index compares them: NULLs are equal.
SELECT /* dpone:count_surplus */ COALESCE(SUM(d.surplus), 0) FROM (
    SELECT COUNT_BIG(*) - 1 AS surplus FROM {table} WHERE {predicate} GROUP BY {key} HAVING COUNT_BIG(*) > 1
) AS d
