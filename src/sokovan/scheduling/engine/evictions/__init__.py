"""The actions preempt and reclaim: rules, victims and their search."""
