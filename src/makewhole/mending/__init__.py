"""Recalibrate a classifier until the audit finds nothing."""

from makewhole.extras import need

need("sklearn", "sklearn")
