"""The daily work of an administrator, over AMQP: lists, users, policies, queues; also where nothing serves HTTP."""
