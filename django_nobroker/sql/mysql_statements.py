"""The statements of MySQL and MariaDB; `mysql` fills them in."""

from __future__ import annotations

# A loose index scan: one step in the lane index for each lane.
LANES = """SELECT queue, priority, lease_losses,
  TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), MIN(available_at)) / 1000000.0, MIN(available_at)
FROM {table} WHERE state = 'ready'{named} GROUP BY queue, priority, lease_losses"""
CANDIDATES = """SELECT {columns} FROM {table} FORCE INDEX (nobroker_job_lane)
  WHERE state = 'ready' AND queue = %s AND priority = %s AND lease_losses = %s
  AND available_at <= UTC_TIMESTAMP(6){kinds}
  ORDER BY available_at, id LIMIT %s FOR UPDATE SKIP LOCKED"""
# STRAIGHT_JOIN: in the order of the batch, which is that of the ids. FORCE INDEX: on a small
# table MySQL would rather scan, and wait for every row that anybody has locked.
MOVE = """UPDATE JSON_TABLE(%s, '$[*]' COLUMNS ({columns})) AS given
STRAIGHT_JOIN {table} FORCE INDEX (PRIMARY)
  ON {table}.id = given.given_id AND {table}.fence = given.given_fence
SET {sets}"""
LOCK = """SELECT id, fence FROM {table} FORCE INDEX (PRIMARY)
  WHERE id IN ({ids}) ORDER BY id FOR UPDATE{skip}"""
AMEND = "UPDATE {table} FORCE INDEX (PRIMARY) SET {sets} WHERE id IN ({ids})"
# A DELETE that is given the ids scans a small table, FORCE INDEX or not.
FORGET = """DELETE {table} FROM JSON_TABLE('[{ids}]', '$[*]' COLUMNS (given_id BIGINT PATH '$'))
  AS given STRAIGHT_JOIN {table} FORCE INDEX (PRIMARY) ON {table}.id = given.given_id"""
