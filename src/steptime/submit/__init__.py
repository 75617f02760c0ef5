"""Submit: a verb or a user's script as a job of a cluster's scheduler, seen to its end."""
