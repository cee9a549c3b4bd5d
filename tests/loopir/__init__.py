"""Tests of the loop IR: its text, its verifier, its interpreter."""
