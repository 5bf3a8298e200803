# Every resource of the provider that this broker has, in a virtual host with a slash in its name; var.change is what a
# second apply changes.

terraform {
  required_providers {
    rabbitmq = {
      source = "cyrilgdn/rabbitmq"
    }
  }
}

provider "rabbitmq" {} # by its variables of the environment

variable "change" {
  type    = bool
  default = false
}

resource "rabbitmq_vhost" "shop" {
  name = "tf/shop"
}

resource "rabbitmq_permissions" "guest" {
  user  = "guest"
  vhost = rabbitmq_vhost.shop.name
  permissions {
    configure = ".*"
    write     = ".*"
    read      = ".*"
  }
}

resource "rabbitmq_user" "clerk" {
  name     = "tf-clerk"
  password = var.change ? "second" : "first"
  tags     = var.change ? ["monitoring"] : ["management", "policymaker"]
}

resource "rabbitmq_user" "nobody" {
  name     = "tf-nobody"
  password = "p"
}

resource "rabbitmq_permissions" "clerk" {
  user  = rabbitmq_user.clerk.name
  vhost = rabbitmq_vhost.shop.name
  permissions {
    configure = ""
    write     = var.change ? "^new" : ".*"
    read      = "^orders$"
  }
}

resource "rabbitmq_topic_permissions" "clerk" {
  user  = rabbitmq_user.clerk.name
  vhost = rabbitmq_vhost.shop.name
  permissions {
    exchange = "amq.topic"
    write    = var.change ? "^new" : "^w"
    read     = "^r"
  }
  permissions {
    exchange = "shop"
    write    = ".*"
    read     = ".*"
  }
}

resource "rabbitmq_exchange" "shop" {
  name  = "shop"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    type    = "topic"
    durable = true
    arguments = {
      alternate-exchange = "amq.fanout"
    }
  }
}

resource "rabbitmq_queue" "orders" {
  name  = "orders/of the day"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    durable        = true
    arguments_json = jsonencode({ x-max-length = var.change ? 20 : 10, x-queue-type = "quorum" })
  }
}

resource "rabbitmq_queue" "plain" {
  name  = "plain"
  vhost = rabbitmq_permissions.guest.vhost
  settings {
    durable     = true
    auto_delete = false
    arguments = {
      x-queue-type = "classic"
    }
  }
}

resource "rabbitmq_binding" "plain" {
  source           = rabbitmq_exchange.shop.name
  vhost            = rabbitmq_vhost.shop.name
  destination      = rabbitmq_queue.plain.name
  destination_type = "queue"
  routing_key      = var.change ? "b.*" : "a.#"
}

resource "rabbitmq_binding" "headers" {
  source           = "amq.headers"
  vhost            = rabbitmq_vhost.shop.name
  destination      = rabbitmq_exchange.shop.name
  destination_type = "exchange"
  arguments_json   = jsonencode({ x-match = "all", n = 1 })
}

resource "rabbitmq_policy" "short" {
  name  = "short"
  vhost = rabbitmq_permissions.guest.vhost
  policy {
    pattern  = "^plain"
    priority = 3
    apply_to = "queues"
    definition = {
      max-length = var.change ? 7 : 5
      overflow   = "drop-head"
    }
  }
}

resource "rabbitmq_operator_policy" "cap" {
  name  = "cap"
  vhost = rabbitmq_permissions.guest.vhost
  policy {
    pattern  = "^plain"
    priority = 1
    apply_to = "queues"
    definition = {
      max-length  = var.change ? 200 : 100
      message-ttl = 60000
    }
  }
}

data "rabbitmq_user" "clerk" {
  name = rabbitmq_user.clerk.name
}

data "rabbitmq_vhost" "shop" {
  name = rabbitmq_vhost.shop.name
}

data "rabbitmq_exchange" "shop" {
  name  = rabbitmq_exchange.shop.name
  vhost = rabbitmq_vhost.shop.name
}

output "read" {
  value = {
    tags     = data.rabbitmq_user.clerk.tags
    vhost    = data.rabbitmq_vhost.shop.name
    settings = data.rabbitmq_exchange.shop.settings
  }
}
