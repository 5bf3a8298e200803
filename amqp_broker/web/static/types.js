// The types of queues that the node has, and what each takes and can do. They are asked for once.

import { get } from "./api.js";

let asked = null;

// {default, types: [{name, policy_kind, arguments, policy_keys, has_home, has_replicas, has_offsets}]}
export function queueTypes() {
  asked ??= get("v1/queue-types").catch((error) => {
    asked = null;
    throw error;
  });
  return asked;
}

// Of one that this node does not have nothing is known.
export async function queueType(name) {
  return (await queueTypes()).types.find((each) => each.name === name) ?? {};
}

export async function typeField(value) {
  const { types, default: usual } = await queueTypes();
  return { name: "default_queue_type", label: "Queues are", type: "select", options: types.map((each) => each.name), value: value ?? usual };
}

// What a form proposes of arguments or keys of policies, each once, with a value to begin with.
export function proposals(names) {
  const found = new Map(names.filter((each) => each.example !== null).map((each) => [each.name, each.example]));
  return [...found].map(([name, example]) => example === "" ? name : `${name}=${JSON.stringify(example)}`);
}
