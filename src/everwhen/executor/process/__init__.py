"""Executes attempts in processes of this machine, each under a warden."""
