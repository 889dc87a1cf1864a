"""Recalibrate a classifier until the audit finds nothing."""
