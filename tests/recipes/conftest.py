"""Loops here are shared out among threads where a user's are: from the work on that is worth it."""

from __future__ import annotations

from tests.threshold import threshold_of_users as threshold_of_users
