"""What can be asked of amq.system: the verbs, one file a subject."""
