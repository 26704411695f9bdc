"""Coordinators and controllers: reconciles objects with their goals."""
