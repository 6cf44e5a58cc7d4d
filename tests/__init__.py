"""Tests: the folders mirror the source tree; harness/ starts real servers, fakes/ holds models of them."""
