-- Reads of the exact catalog of one table. All run under search_path = pg_catalog, so that the server qualifies every
-- name that it prints, whatever the login's own path is. to_jsonb(row) ->> 'column' reads columns that PostgreSQL 13
-- does not have yet.

-- name: relation
SELECT /* dpone:relation */
    c.oid, c.relkind AS kind, c.relpersistence AS persistence, am.amname AS access_method, s.spcname AS tablespace,
    c.reloptions AS options, toast.reloptions AS toast_options, c.relreplident AS replica_identity,
    pg_get_userbyid(c.relowner) AS owner, obj_description(c.oid, 'pg_class') AS comment,
    (
        SELECT jsonb_agg(jsonb_build_array(r.rolname, g.privilege_type, g.is_grantable)
                         ORDER BY r.rolname NULLS FIRST, g.privilege_type)
        FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS g
        LEFT JOIN pg_roles r ON r.oid = g.grantee
    ) AS grants
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_am am ON am.oid = c.relam
LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
LEFT JOIN pg_class toast ON toast.oid = c.reltoastrelid
WHERE n.nspname = %(schema)s AND c.relname = %(name)s

-- name: columns
SELECT /* dpone:columns */
    a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
    CASE WHEN a.attcollation <> t.typcollation THEN format('%%I.%%I', cn.nspname, co.collname) END AS collation,
    a.attnotnull AS not_null, nn.conname AS not_null_name, pg_get_expr(d.adbin, d.adrelid) AS default,
    a.attstorage AS storage, coalesce(to_jsonb(a) ->> 'attcompression', '') AS compression,
    nullif(a.attstattarget, -1) AS statistics, (
        -- Some packages of PostgreSQL keep options of their own here.
        SELECT array_agg(o ORDER BY o) FROM unnest(a.attoptions) AS o
        WHERE split_part(o, '=', 1) IN ('n_distinct', 'n_distinct_inherited')
    ) AS options,
    col_description(a.attrelid, a.attnum) AS comment, obj_description(nn.oid, 'pg_constraint') AS not_null_comment
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation co ON co.oid = a.attcollation
LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_constraint nn ON nn.conrelid = a.attrelid AND nn.contype = 'n' AND nn.conkey = ARRAY[a.attnum]
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- name: indexes
SELECT /* dpone:indexes */
    x.relname AS name, coalesce(con.contype, '') AS constraint_kind,
    i.indisunique AS unique, i.indisvalid AND i.indisready AND i.indislive AS valid,
    i.indisclustered AS clustered, i.indisreplident AS replica_identity, s.spcname AS tablespace,
    pg_get_indexdef(i.indexrelid) AS definition,
    format('CREATE %%sINDEX %%I ON %%I.%%I USING ', CASE WHEN i.indisunique THEN 'UNIQUE ' END,
           x.relname, n.nspname, c.relname) AS preamble,
    ARRAY(
        SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.place <= i.indnkeyatts ORDER BY k.place
    ) AS key_columns,
    i.indpred IS NULL AND i.indexprs IS NULL AND i.indimmediate AS plain_key,
    (
        SELECT jsonb_agg(jsonb_build_array(a.attnum, a.attstattarget) ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = i.indexrelid AND coalesce(a.attstattarget, -1) >= 0
    ) AS statistics,
    obj_description(i.indexrelid, 'pg_class') AS comment, obj_description(con.oid, 'pg_constraint') AS key_comment
FROM pg_index i
JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_tablespace s ON s.oid = x.reltablespace
LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.conrelid = i.indrelid AND con.contype IN ('p', 'u', 'x')
WHERE i.indrelid = %(oid)s
ORDER BY x.relname

-- name: index_key
SELECT /* dpone:index_key */
    (SELECT array_agg(pg_get_indexdef(i.indexrelid, k, false) ORDER BY k) FROM generate_series(1, i.indnkeyatts) AS k)
        AS expressions,
    pg_get_expr(i.indpred, i.indrelid) AS predicate,
    NOT coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false) AS nulls_distinct
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = x.relnamespace
WHERE n.nspname = %(schema)s AND x.relname = %(name)s

-- name: dependents
-- Whatever follows the table by its object id and not by its name, except the parts that the contract describes.
WITH table_itself AS (
    SELECT oid, reltype, reltoastrelid FROM pg_class WHERE oid = %(oid)s
), own AS (
    SELECT 'pg_class'::regclass::oid AS classid, oid AS objid FROM table_itself
    UNION ALL SELECT 'pg_class'::regclass, reltoastrelid FROM table_itself
    UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i, table_itself t
        WHERE i.indrelid IN (t.oid, t.reltoastrelid)
    UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c, table_itself t
        WHERE c.conrelid = t.oid AND c.contype IN ('p', 'u', 'n')
    UNION ALL SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef d, table_itself t WHERE d.adrelid = t.oid
    UNION ALL SELECT 'pg_type'::regclass, y.oid FROM pg_type y, table_itself t
        WHERE t.reltype <> 0 AND (y.oid = t.reltype OR y.typelem = t.reltype AND y.typlen = -1)
), found AS (
    SELECT DISTINCT d.classid, d.objid, d.objsubid FROM pg_depend d
    JOIN own ON own.classid = d.refclassid AND own.objid = d.refobjid
    WHERE d.deptype <> 'e'
      AND NOT EXISTS (SELECT FROM own WHERE own.classid = d.classid AND own.objid = d.objid)
      AND NOT (d.deptype = 'i' AND d.classid = 'pg_class'::regclass) -- an identity column's sequence
      AND NOT EXISTS (SELECT FROM pg_trigger g WHERE d.classid = 'pg_trigger'::regclass AND g.oid = d.objid AND g.tgisinternal)
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE d.classid = 'pg_constraint'::regclass AND k.oid = d.objid AND k.contype = 't')
)
SELECT DISTINCT /* dpone:dependents */
    CASE
        WHEN k.contype = 'f' AND k.conrelid = %(oid)s THEN 'foreign key'
        WHEN k.contype = 'f' THEN 'inbound foreign key'
        WHEN k.contype = 'c' THEN 'check constraint'
        WHEN k.contype = 'x' THEN 'exclusion constraint'
        ELSE o.type
    END AS kind,
    o.identity AS object
FROM found f
LEFT JOIN pg_constraint k ON f.classid = 'pg_constraint'::regclass AND k.oid = f.objid
LEFT JOIN pg_rewrite r ON f.classid = 'pg_rewrite'::regclass AND r.oid = f.objid
LEFT JOIN pg_class v ON v.oid = r.ev_class AND v.relkind IN ('v', 'm')
CROSS JOIN LATERAL pg_identify_object(
    CASE WHEN v.oid IS NULL THEN f.classid ELSE 'pg_class'::regclass END,
    coalesce(v.oid, f.objid), CASE WHEN v.oid IS NULL THEN f.objsubid ELSE 0 END
) AS o
WHERE o.type <> 'publication relation' -- the query `properties` names publications of every form
ORDER BY 1, 2

-- name: properties
-- What belongs to the table and that the shadow's DDL does not reproduce.
WITH t AS (
    SELECT c.*, n.nspname, format('%%I.%%I', n.nspname, c.relname) AS identity
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %(oid)s
), col AS (
    SELECT a.*, format('%%s.%%I', t.identity, a.attname) AS identity
    FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
), con AS (
    SELECT k.*, to_jsonb(k) ->> 'conperiod' AS period, format('%%I on %%s', k.conname, t.identity) AS identity
    FROM t JOIN pg_constraint k ON k.conrelid = t.oid
)
SELECT /* dpone:properties */ 'kind' AS kind, identity AS object FROM t WHERE relkind NOT IN ('r', 'p')
UNION ALL SELECT 'partitioned', identity FROM t WHERE relkind = 'p'
UNION ALL SELECT 'partition', identity FROM t WHERE relispartition
UNION ALL SELECT 'parent', format('%%s', h.inhparent::regclass) FROM t JOIN pg_inherits h ON h.inhrelid = t.oid
    WHERE NOT relispartition
UNION ALL SELECT 'unlogged', identity FROM t WHERE relpersistence = 'u'
UNION ALL SELECT 'temporary', identity FROM t WHERE relpersistence = 't'
UNION ALL SELECT 'access method', am.amname FROM t JOIN pg_am am ON am.oid = t.relam
    WHERE t.relkind = 'r' AND am.amname <> 'heap'
UNION ALL SELECT 'typed', format('%%s', reloftype::regtype) FROM t WHERE reloftype <> 0
UNION ALL SELECT 'row security', identity FROM t WHERE relrowsecurity OR relforcerowsecurity
UNION ALL SELECT 'row type', y.typname FROM t JOIN pg_type y ON y.oid = t.reltype
    WHERE y.typacl IS NOT NULL OR obj_description(y.oid, 'pg_type') IS NOT NULL
UNION ALL SELECT 'grantor', g.grantor::regrole::text FROM t, aclexplode(t.relacl) AS g WHERE g.grantor <> t.relowner
UNION ALL SELECT 'security label', coalesce(col.identity, t.identity)
    FROM t JOIN pg_seclabel l ON l.classoid = 'pg_class'::regclass AND l.objoid = t.oid
    LEFT JOIN col ON col.attnum = l.objsubid
UNION ALL SELECT 'extension', e.extname FROM t JOIN pg_depend d ON d.classid = 'pg_class'::regclass
        AND d.refclassid = 'pg_extension'::regclass AND d.deptype IN ('e', 'x')
        AND (d.objid = t.oid OR d.objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = t.oid))
    JOIN pg_extension e ON e.oid = d.refobjid
UNION ALL SELECT 'publication', p.pubname FROM t JOIN pg_publication_tables p
    ON p.schemaname = t.nspname AND p.tablename = t.relname
UNION ALL SELECT 'subscription', identity FROM t WHERE EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = t.oid)
UNION ALL SELECT 'identity column', identity FROM col WHERE attidentity <> ''
UNION ALL SELECT 'generated column', identity FROM col WHERE attgenerated <> ''
UNION ALL SELECT 'column grant', identity FROM col WHERE cardinality(attacl) > 0
UNION ALL SELECT 'sequence default', col.identity FROM col JOIN pg_attrdef d ON d.adrelid = col.attrelid AND d.adnum = col.attnum
    WHERE pg_get_expr(d.adbin, d.adrelid) LIKE '%%nextval(%%'
UNION ALL SELECT 'deferrable key', identity FROM con WHERE contype IN ('p', 'u') AND condeferrable
UNION ALL SELECT 'period key', identity FROM con WHERE contype IN ('p', 'u') AND period = 'true'
UNION ALL SELECT 'not-null constraint', identity FROM con WHERE contype = 'n' AND (connoinherit OR NOT convalidated)
UNION ALL SELECT 'invalid index', format('%%s', i.indexrelid::regclass) FROM t JOIN pg_index i ON i.indrelid = t.oid
    WHERE NOT (i.indisvalid AND i.indisready AND i.indislive)
UNION ALL SELECT 'owner', pg_get_userbyid(relowner) FROM t WHERE NOT pg_has_role(relowner, 'USAGE')
UNION ALL SELECT 'schema right', nspname FROM t WHERE NOT has_schema_privilege(relnamespace, 'CREATE')
UNION ALL SELECT 'owner schema right', nspname FROM t JOIN pg_roles me ON me.rolname = current_user
    WHERE NOT me.rolsuper AND me.oid <> relowner AND NOT has_schema_privilege(relowner, relnamespace, 'CREATE')
ORDER BY 1, 2

-- name: loadable_digest
-- One digest over everything that decides what a COPY into the shadow does. Indexes are left out: they come later.
SELECT /* dpone:loadable_digest */ c.oid, encode(sha256(convert_to(jsonb_build_array(
    c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
    (
        SELECT jsonb_agg(jsonb_build_array(a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attnotnull,
                                           a.attidentity, a.attgenerated, d.adbin::text) ORDER BY a.attnum)
        FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ),
    (SELECT jsonb_agg(g.oid ORDER BY g.oid) FROM pg_trigger g WHERE g.tgrelid = c.oid),
    (SELECT jsonb_agg(r.oid ORDER BY r.oid) FROM pg_rewrite r WHERE r.ev_class = c.oid),
    (SELECT jsonb_agg(k.oid ORDER BY k.oid) FROM pg_constraint k
     WHERE k.conrelid = c.oid AND k.contype NOT IN ('p', 'u', 'n')),
    (SELECT jsonb_agg(h.inhrelid ORDER BY h.inhrelid) FROM pg_inherits h WHERE h.inhparent = c.oid)
)::text, 'UTF8')), 'hex') AS digest
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {schema} AND c.relname = {name}

-- name: owner_comment
SELECT /* dpone:owner_comment */ obj_description(c.oid, 'pg_class')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s
