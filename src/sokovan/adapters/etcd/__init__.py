"""Shared configuration in etcd v3."""
