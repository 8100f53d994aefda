"""Replays the recorded conversations against nodes of its own, as a part of `make test`.

Which conversations run, and which wait for features that are still to come, stands in
`areas.json`; what a conversation uses is also found out by looking at it, and the two must agree.
The closing line is `N passed, N failed`.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(HERE), HERE]

import replay  # noqa: E402
from support.node import TemporaryNode, binary_from_environment  # noqa: E402


def features_used(conversation):
    """The features beyond plain objects that a conversation exercises."""
    found = set()
    for step in conversation["steps"]:
        message, path = step.get("pb", ""), json.dumps(step.get("path", ""))
        if message in ("RpbIndexReq", "RpbCSBucketReq") or "/index/" in path:
            found.add("index queries")
        if conversation.get("needs", {}).get("config", {}).get("backend") == "bitcask":
            found.add("an engine without indexes")
        if message == "RpbMapRedReq" or ("/mapred" in path and not is_served_job(step)):
            found.add("MapReduce")
    return found


def is_served_job(step):
    """Whether a MapReduce request over HTTP is one of those that the server runs or refuses for
    good: links and values of listed keys, or no job at all."""
    body = step.get("body", "")
    if not isinstance(body, dict):
        return True
    job = body.get("json", {})
    inputs, phases = job.get("inputs"), job.get("query", [])
    keys_listed = isinstance(inputs, list) and all(isinstance(item, list) for item in inputs)
    return keys_listed and all(
        "link" in phase or phase.get("map", {}).get("function") == "map_object_value"
        for phase in phases)


def load_plan():
    """(conversations to run, with the settings of their nodes; problems of the list): what `areas.json`
    says, checked."""
    with open(os.path.join(HERE, "areas.json"), encoding="utf-8") as handle:
        plan = json.load(handle)
    waiting = {name: feature["name"] for feature in plan["waiting_for"]
               for name in feature["conversations"]}
    chosen, problems, seen = [], [], set()
    for area in plan["areas"]:
        for path, conversation in replay.load([os.path.join(HERE, area)], True):
            name = os.path.relpath(path, HERE)[:-len(".json")]
            seen.add(name)
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
    return chosen, problems


def needs(conversation):
    """The settings that a conversation needs of the node, as `KEY=VALUE`."""
    config = conversation.get("needs", {}).get("config", {})
    return tuple(sorted("%s=%s" % pair for pair in config.items()))


def replay_against_node(binary, settings, conversations):
    """Starts a node with the settings and replays; (passed, failed)."""
    paths = [path for path, _ in conversations]
    with TemporaryNode(binary, settings) as node:
        for name, props in sorted(replay.all_needs(conversations)["types"].items()):
            clean = {key: value for key, value in props.items() if key != "active"}
            node.create_bucket_type(name, clean, active=props.get("active", True))
        command = [sys.executable, os.path.join(HERE, "replay.py"), "--instead",
                   "--pb", node.record["pb"], "--http", node.record["http"]]
        for setting in settings:
            command += ["--have", setting]
        done = subprocess.run(command + paths, stdout=subprocess.PIPE, text=True)
        if "FAIL" in done.stdout:
            print("the end of the node's log:\n" + node.log_tail(15))
    lines = done.stdout.splitlines()
    print("\n".join(line for line in lines[:-1] if not line.startswith("pass ")))
    words = lines[-1].split() if lines else []
    if len(words) != 4:
        print("replay.py ended with status %d and no closing line" % done.returncode)
        return 0, len(paths)
    return int(words[0]), int(words[2])


def main():
    binary = binary_from_environment()
    conversations, problems = load_plan()
    for problem in problems:
        print("FAIL areas.json: " + problem)
    passed, failed = 0, len(problems)
    for settings in sorted({settings for _, _, settings in conversations}):
        group = [(path, conversation) for path, conversation, of_node in conversations
                 if of_node == settings]
        print("%d conversations with a node of %s"
              % (len(group), ", ".join(settings) or "default settings"), flush=True)
        counts = replay_against_node(binary, settings, group)
        passed, failed = passed + counts[0], failed + counts[1]
    print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
