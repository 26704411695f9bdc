"""Works towards what was asked for: coordinators, their tasks, controllers."""
