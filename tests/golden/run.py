"""Replays the recorded conversations against nodes of its own, as parts of `make test`.

    run.py             against one node
    run.py --nodes N   against a development cluster of N nodes, which take turns

Which conversations run, which wait for features that are still to come, and which speak with one
node of a cluster only, stands in `areas.json`; what a conversation uses is also found out by
looking at it, and the two must agree. The closing line is `N passed, N failed`.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

import replay  # noqa: E402
from support.development_cluster import DevelopmentCluster  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402


def features_used(conversation):
    """Returns the features beyond plain objects that a conversation uses."""
    found = set()
    for step in conversation["steps"]:
        message, path = step.get("pb", ""), json.dumps(step.get("path", ""))
        if message in ("RpbIndexReq", "RpbCSBucketReq") or "/index/" in path:
            found.add("index queries")
        if conversation.get("needs", {}).get("config", {}).get("backend") == "bitcask":
            found.add("an engine without indexes")
    return found


def sets_properties_for_another_node(conversation):
    """Tells if a conversation changes bucket properties and uses both protocols, which go to different
    nodes of a cluster."""
    steps = conversation["steps"]
    protocols = {any(member in step for member in ("pb", "pb_raw")) for step in steps}
    return len(protocols) == 2 and any(
        step.get("pb") in ("RpbSetBucketReq", "RpbResetBucketReq")
        or (step.get("http") in ("PUT", "DELETE") and "/props" in step["path"]) for step in steps)


def load_areas():
    """Loads `areas.json`."""
    with open(os.path.join(HERE, "areas.json"), encoding="utf-8") as handle:
        return json.load(handle)


def name_of(path):
    """Returns the name of a conversation: its area and its file."""
    return os.path.relpath(path, HERE)[:-len(".json")]


def load_plan(plan):
    """Checks `areas.json`. Returns (conversations to run, with the settings of their nodes; problems of
    the list)."""
    waiting = {name: feature["name"] for feature in plan["waiting_for"]
               for name in feature["conversations"]}
    one_node = set(plan["on_one_node_of_a_cluster"]["conversations"])
    chosen, problems, seen = [], [], set()
    for area in plan["areas"]:
        for path, conversation in replay.load([os.path.join(HERE, area)], True):
            name = name_of(path)
            seen.add(name)
            if (name in one_node) != sets_properties_for_another_node(conversation):
                problems.append("%s: on_one_node_of_a_cluster has to name the conversations that set "
                                "properties and speak both protocols, and no others" % name)
            used = features_used(conversation)
            if name in waiting and waiting[name] not in used:
                problems.append("%s waits for %s, but does not use it" % (name, waiting[name]))
            elif name not in waiting and used & {f["name"] for f in plan["waiting_for"]}:
                problems.append("%s uses %s and is not listed as waiting for it"
                                % (name, ", ".join(sorted(used))))
            elif name not in waiting:
                chosen.append((path, conversation, needs(conversation)))
                for feature in sorted(used):
                    chosen += [(path, conversation, needs(conversation) + (setting,))
                               for setting in plan["also_with"].get(feature, ())]
    problems += ["%s is listed as waiting and is not there" % name
                 for name in sorted(set(waiting) - seen)]
    problems += ["%s is listed for one node of a cluster and is not there" % name
                 for name in sorted(one_node - seen)]
    return chosen, problems


def needs(conversation):
    """Returns the settings that a conversation needs of the node, as `KEY=VALUE`."""
    config = conversation.get("needs", {}).get("config", {})
    return tuple(sorted("%s=%s" % pair for pair in config.items()))


def node_settings(settings, declared):
    """Returns the program's settings for the needs of conversations. `areas.json` lists the needs that
    stand for several settings."""
    of_node = []
    for setting in settings:
        of_node += declared.get(setting, [setting])
    return tuple(of_node)


def start_nodes(binary, settings, count):
    """Starts one node, or several nodes that form a cluster."""
    if count == 1:
        return TemporaryNode(binary, settings)
    return DevelopmentCluster(binary, count, settings)


def replay_against_nodes(nodes, settings, conversations, one_node):
    """Makes the bucket types and replays the conversations, those of `one_node` only with the first
    node. Returns (passed, failed)."""
    for name, props in sorted(replay.all_needs(conversations)["types"].items()):
        clean = {key: value for key, value in props.items() if key != "active"}
        nodes.create_bucket_type(name, clean, active=props.get("active", True))
    alone = [path for path, _ in conversations if name_of(path) in one_node]
    others = [path for path, _ in conversations if path not in alone]
    passed = failed = 0
    for records, paths in ((nodes.records, others), (nodes.records[:1], alone)):
        if paths:
            counts = replay_paths(records, settings, paths)
            passed, failed = passed + counts[0], failed + counts[1]
    if failed:
        print("the end of the node's log:\n" + nodes.log_tail(15))
    return passed, failed


def replay_paths(records, settings, paths):
    """Runs `replay.py` against the nodes of the records. Returns (passed, failed)."""
    command = [sys.executable, os.path.join(HERE, "replay.py"), "--instead"]
    for record in records:
        command += ["--pb", record["pb"], "--http", record["http"]]
    for setting in settings:
        command += ["--have", setting]
    done = subprocess.run(command + paths, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    print("\n".join(line for line in lines[:-1] if not line.startswith("pass ")))
    words = lines[-1].split() if lines else []
    if len(words) != 4:
        print("replay.py ended with status %d and no closing line" % done.returncode)
        return 0, len(paths)
    return int(words[0]), int(words[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="nodes of the cluster (1)")
    count = parser.parse_args().nodes
    binary = binary_from_environment()
    areas = load_areas()
    conversations, problems = load_plan(areas)
    for problem in problems:
        print("FAIL areas.json: " + problem)
    exempt = areas["on_one_node_of_a_cluster"]
    one_node = set(exempt["conversations"]) if count > 1 else set()
    if one_node:
        print("with one node of the cluster only, as %s: %s"
              % (exempt["reason"], ", ".join(sorted(one_node))))
    passed, failed = 0, len(problems)
    alone = areas["without_a_cluster"]
    if count > 1:
        print("not with a cluster, as %s: %s" % (alone["reason"], ", ".join(alone["areas"])))
        conversations = [each for each in conversations
                         if os.path.dirname(name_of(each[0])) not in alone["areas"]]
    for settings in sorted({settings for _, _, settings in conversations}):
        group = [(path, conversation) for path, conversation, of_node in conversations
                 if of_node == settings]
        print("%d conversations with %s of %s"
              % (len(group), "a node" if count == 1 else "%d nodes" % count,
                 ", ".join(settings) or "default settings"), flush=True)
        of_node = node_settings(settings, areas["settings_of_needs"])
        with start_nodes(binary, of_node, count) as nodes:
            counts = replay_against_nodes(nodes, settings, group, one_node)
        passed, failed = passed + counts[0], failed + counts[1]
    print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
