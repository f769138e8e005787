"""Certified SVMs as scikit-learn's estimators are: ``SieveSVC``, ``SieveSVCCV`` and ``sieve_svc_path``."""

from __future__ import annotations

from pipeline.estimators.svc import SieveSVC
from pipeline.estimators.svc_cv import SieveSVCCV
from pipeline.estimators.svc_path import sieve_svc_path

__all__ = ["SieveSVC", "SieveSVCCV", "sieve_svc_path"]
