// Drives a node with Riak's own client for Node.js. The address comes as HOST:PORT in the
// environment variable TEST_PB; the bucket types that BUCKET_TYPES of run.py names exist there.
// TEST_CLUSTER has the addresses of a cluster of five, TEST_VICTIM the process of the third of them, which
// may be killed.
// Prints one line for each test and closes with `N passed, N failed`.
'use strict';

const assert = require('assert');
const crypto = require('crypto');
const { promisify } = require('util');

require('winston').remove(require('winston').transports.Console);
const Riak = require('basho-riak-client');

const { RiakObject } = Riak.Commands.KV;
const tests = [];
const test = (name, body) => tests.push({ name, body });
const newBucket = () => 'b-' + crypto.randomBytes(6).toString('hex');

let client;
// The client's commands as promises.
const call = (name, ...options) => promisify(client[name]).call(client, ...options);

const textObject = (value) => new RiakObject()
    .setContentType('text/plain').setValue(Buffer.from(value));

const store = (bucket, key, value, more) => call('storeValue', Object.assign(
    { bucketType: 'plain', bucket, key, value: textObject(value) }, more));

const fetch = (bucket, key, more) => call('fetchValue', Object.assign(
    { bucketType: 'plain', bucket, key }, more));

const valueOf = (response) => {
    assert.strictEqual(response.values.length, 1);
    return response.values[0].value.toString();
};

// Collects the batches of a streaming command.
const collect = (name, options, member) => new Promise((resolve, reject) => {
    const found = [];
    client[name](Object.assign({ stream: true }, options), (error, response) => {
        if (error) {
            return reject(error);
        }
        found.push(...response[member]);
        if (response.done) {
            resolve(found);
        }
    });
});

test('ping is answered', async () => {
    assert.strictEqual(await call('ping'), true);
});

test('server info tells name and version', async () => {
    const info = await call('fetchServerInfo');
    assert.match(info.server_version, /^\d+\.\d+\.\d+/);
    assert.match(info.node, /@/);
});

test('a stored value is read back with its type and clock', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'value');
    const got = await fetch(bucket, 'k');
    assert.strictEqual(got.isNotFound, false);
    assert.strictEqual(valueOf(got), 'value');
    assert.strictEqual(got.values[0].contentType, 'text/plain');
    assert.ok(got.vclock.length > 0);
    assert.ok(got.values[0].lastModified > 1.5e12);
});

test('a missing key is not found', async () => {
    const got = await fetch(newBucket(), 'missing');
    assert.strictEqual(got.isNotFound, true);
    assert.deepStrictEqual(got.values, []);
});

test('JavaScript values are encoded and decoded by the client', async () => {
    const bucket = newBucket();
    const value = { name: 'Ærøskøbing', list: [1, 2.5, null, true] };
    await call('storeValue', { bucketType: 'plain', bucket, key: 'k', value });
    const got = await fetch(bucket, 'k', { convertToJs: true });
    assert.deepStrictEqual(got.values[0].value, value);
});

test('binary values of a megabyte come back byte for byte', async () => {
    const bucket = newBucket();
    const value = crypto.randomBytes(1 << 20);
    await call('storeValue', { bucketType: 'plain', bucket, key: 'k',
        value: new RiakObject().setValue(value).setContentType('application/octet-stream') });
    const got = await fetch(bucket, 'k');
    assert.ok(got.values[0].value.equals(value));
});

test('binary keys are kept', async () => {
    const bucket = newBucket();
    const key = Buffer.from([0, 1, 0xff, 0xfe]);
    await store(bucket, key, 'v');
    assert.strictEqual(valueOf(await fetch(bucket, key)), 'v');
});

test('a deleted key is gone', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'v');
    const got = await fetch(bucket, 'k');
    await call('deleteValue', { bucketType: 'plain', bucket, key: 'k', vclock: got.vclock });
    assert.strictEqual((await fetch(bucket, 'k')).isNotFound, true);
});

test('a tombstone is shown with its clock when asked for', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'v');
    await call('deleteValue', { bucketType: 'plain', bucket, key: 'k' });
    const got = await fetch(bucket, 'k', { returnDeletedVClock: true });
    assert.strictEqual(got.isNotFound, false);
    assert.strictEqual(got.values[0].isTombstone, true);
    assert.ok(got.vclock.length > 0);
});

test('the server chooses a key where none is given', async () => {
    const bucket = newBucket();
    const stored = await call('storeValue',
        { bucketType: 'plain', bucket, value: textObject('v') });
    assert.ok(stored.generatedKey);
    assert.strictEqual(valueOf(await fetch(bucket, stored.generatedKey)), 'v');
});

test('return body gives what was stored', async () => {
    const stored = await store(newBucket(), 'k', 'v', { returnBody: true });
    assert.strictEqual(valueOf(stored), 'v');
    assert.ok(stored.vclock.length > 0);
});

test('return head gives metadata without the value', async () => {
    const stored = await store(newBucket(), 'k', 'value', { returnHead: true });
    assert.strictEqual(stored.values.length, 1);
    assert.strictEqual(stored.values[0].contentType, 'text/plain');
    assert.strictEqual((stored.values[0].value || '').toString(), '');
});

test('head only gives metadata without the value', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'value');
    const got = await fetch(bucket, 'k', { headOnly: true });
    assert.strictEqual(got.values[0].contentType, 'text/plain');
    assert.strictEqual((got.values[0].value || '').toString(), '');
});

test('metadata, links and index entries are kept', async () => {
    const bucket = newBucket();
    const value = textObject('v');
    value.setUserMeta([{ key: 'colour', value: 'blue' }]);
    value.setLinks([{ bucket, key: 'other', tag: 'friend' }]);
    value.addToIndex('name_bin', 'alice');
    value.addToIndex('age_int', 42);
    await call('storeValue', { bucketType: 'plain', bucket, key: 'k', value });
    const got = (await fetch(bucket, 'k')).values[0];
    assert.deepStrictEqual(got.userMeta, [{ key: 'colour', value: 'blue' }]);
    assert.deepStrictEqual(got.links, [{ bucket, key: 'other', tag: 'friend' }]);
    assert.deepStrictEqual(got.indexes, { name_bin: ['alice'], age_int: [42] });
});

test('blind writes make siblings', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'one', { bucketType: 'sibs' });
    await store(bucket, 'k', 'two', { bucketType: 'sibs' });
    const got = await fetch(bucket, 'k', { bucketType: 'sibs' });
    const values = got.values.map((sibling) => sibling.value.toString()).sort();
    assert.deepStrictEqual(values, ['one', 'two']);
});

test('writing the merged value with the clock resolves the conflict', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'one', { bucketType: 'sibs' });
    await store(bucket, 'k', 'two', { bucketType: 'sibs' });
    const conflicting = await fetch(bucket, 'k', { bucketType: 'sibs' });
    await store(bucket, 'k', 'both', { bucketType: 'sibs', vclock: conflicting.vclock });
    assert.strictEqual(valueOf(await fetch(bucket, 'k', { bucketType: 'sibs' })), 'both');
});

test('a resolver of the client sees all siblings', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'one', { bucketType: 'sibs' });
    await store(bucket, 'k', 'three', { bucketType: 'sibs' });
    let count = 0;
    const conflictResolver = (siblings) => {
        count = siblings.length;
        return siblings.sort((a, b) => b.value.length - a.value.length)[0];
    };
    const got = await fetch(bucket, 'k', { bucketType: 'sibs', conflictResolver });
    assert.strictEqual(count, 2);
    assert.strictEqual(valueOf(got), 'three');
});

test('if none match writes only a new key', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'one', { ifNoneMatch: true });
    await assert.rejects(store(bucket, 'k', 'two', { ifNoneMatch: true }), /match_found/);
    assert.strictEqual(valueOf(await fetch(bucket, 'k')), 'one');
});

test('if not modified refuses an old clock', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'one');
    const { vclock } = await fetch(bucket, 'k');
    await store(bucket, 'k', 'two', { vclock, ifNotModified: true });
    await assert.rejects(store(bucket, 'k', 'three', { vclock, ifNotModified: true }),
        /modified/);
    assert.strictEqual(valueOf(await fetch(bucket, 'k')), 'two');
});

test('quorums are taken and refused above n', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'v', { w: 3, dw: 2, pw: 1 });
    assert.strictEqual(valueOf(await fetch(bucket, 'k', { r: 3, pr: 2 })), 'v');
    await assert.rejects(fetch(bucket, 'k', { r: 4 }), /n_val_violation/);
});

test('properties of a bucket are read, set and reset', async () => {
    const bucket = newBucket();
    const before = await call('fetchBucketProps', { bucketType: 'plain', bucket });
    assert.deepStrictEqual([before.nVal, before.allowMult], [3, false]);
    await call('storeBucketProps', { bucketType: 'plain', bucket, nVal: 2, allowMult: true });
    const changed = await call('fetchBucketProps', { bucketType: 'plain', bucket });
    assert.deepStrictEqual([changed.nVal, changed.allowMult], [2, true]);
    await call('resetBucketProps', { bucketType: 'plain', bucket });
    const after = await call('fetchBucketProps', { bucketType: 'plain', bucket });
    assert.deepStrictEqual(after, before);
});

test('properties of a bucket type are read', async () => {
    const props = await call('fetchBucketTypeProps', { bucketType: 'sibs' });
    assert.deepStrictEqual([props.nVal, props.allowMult], [3, true]);
});

test('an unknown bucket type is an error', async () => {
    await assert.rejects(store(newBucket(), 'k', 'v', { bucketType: 'no-such-type' }),
        /no_type|bucket type/);
});

test('all keys of a bucket are streamed', async () => {
    const bucket = newBucket();
    const names = Array.from({ length: 250 }, (_, index) => 'key-' + index).sort();
    await Promise.all(names.map((name) => store(bucket, name, 'v')));
    const found = await collect('listKeys', { bucketType: 'plain', bucket }, 'keys');
    assert.deepStrictEqual(found.sort(), names);
});

test('buckets are streamed by their type', async () => {
    const bucket = newBucket();
    await store(bucket, 'k', 'v', { bucketType: 'single' });
    const typed = await collect('listBuckets', { bucketType: 'single' }, 'buckets');
    assert.ok(typed.includes(bucket));
    const untyped = await collect('listBuckets', { bucketType: 'default' }, 'buckets');
    assert.ok(!untyped.includes(bucket));
});

const storeIndexed = (bucket, key, entries) => {
    const value = textObject('v');
    entries.forEach(([field, term]) => value.addToIndex(field, term));
    return promisify(client.storeValue).call(
        client, { bucketType: 'plain', bucket, key, value });
};

// All batches of an index query, and the continuation of the last one.
const query = (options) => new Promise((resolve, reject) => {
    const found = [];
    client.secondaryIndexQuery(Object.assign({ bucketType: 'plain', stream: true }, options),
        (error, response) => {
            if (error) {
                return reject(error);
            }
            found.push(...response.values);
            if (response.done) {
                resolve({ found, continuation: response.continuation });
            }
        });
});

test('index queries find keys by terms and ranges', async () => {
    const bucket = newBucket();
    const numbers = Array.from({ length: 30 }, (_, number) => number);
    await Promise.all(numbers.map((number) => storeIndexed(bucket, 'k' + number,
        [['n_int', number - 10], ['c_bin', number % 2 ? 'odd' : 'even']])));
    const odd = await query({ bucket, indexName: 'c_bin', indexKey: 'odd' });
    assert.strictEqual(odd.found.length, 15);
    const range = await query({ bucket, indexName: 'n_int', rangeStart: -2, rangeEnd: 1,
        returnKeyAndIndex: true });
    assert.deepStrictEqual(
        range.found.map((each) => [String(each.indexKey), each.objectKey.toString()]).sort(),
        [['-1', 'k9'], ['-2', 'k8'], ['0', 'k10'], ['1', 'k11']]);
    const none = await query({ bucket, indexName: 'n_int', rangeStart: 5, rangeEnd: 4 });
    assert.deepStrictEqual(none.found, []);
});

test('index queries are answered in pages', async () => {
    const bucket = newBucket();
    const names = Array.from({ length: 25 }, (_, number) => 'k' + String(number).padStart(2, '0'));
    await Promise.all(names.map((name, number) => storeIndexed(bucket, name, [['n_int', number]])));
    const found = [];
    let continuation;
    do {
        const page = await query(Object.assign(
            { bucket, indexName: 'n_int', rangeStart: 0, rangeEnd: 100, maxResults: 10 },
            continuation && { continuation }));
        found.push(...page.found.map((each) => each.objectKey.toString()));
        continuation = page.continuation;
    } while (continuation);
    assert.deepStrictEqual(found, names);
});

test('an index of no kind is an error', async () => {
    await assert.rejects(query({ bucket: newBucket(), indexName: 'colour', indexKey: 'x' }),
        /unknown_field_type/);
});

test('the preference list names n partitions', async () => {
    const { preflist } = await call('fetchPreflist',
        { bucketType: 'single', bucket: newBucket(), key: 'k' });
    assert.strictEqual(preflist.length, 1);
    assert.strictEqual(preflist[0].primary, true);
});

test('hundreds of commands at once are all answered', async () => {
    const bucket = newBucket();
    const indexes = Array.from({ length: 400 }, (_, index) => index);
    await Promise.all(indexes.map((index) => store(bucket, 'k' + index, 'v' + index)));
    const values = await Promise.all(indexes.map((index) => fetch(bucket, 'k' + index)));
    assert.deepStrictEqual(values.map(valueOf), indexes.map((index) => 'v' + index));
});

test('a counter counts and shows its value', async () => {
    const at = { bucketType: 'counters', bucket: newBucket(), key: 'k' };
    await call('updateCounter', { ...at, increment: 5 });
    const updated = await call('updateCounter', { ...at, increment: -7, returnBody: true });
    assert.strictEqual(Number(updated.counterValue), -2);
    assert.strictEqual(Number((await call('fetchCounter', at)).counterValue), -2);
    const missing = await call('fetchCounter', { ...at, key: 'none' });
    assert.ok(missing.notFound);
});

test('a set takes and gives up elements', async () => {
    const at = { bucketType: 'sets', bucket: newBucket(), key: 'k' };
    await call('updateSet', { ...at, additions: ['ann', 'bob'] });
    const { values, context } = await call('fetchSet', at);
    assert.deepStrictEqual(values.sort(), ['ann', 'bob']);
    const left = await call('updateSet',
        { ...at, removals: ['ann'], context, returnBody: true });
    assert.deepStrictEqual(left.values, ['bob']);
});

test('a set under a key of the server', async () => {
    const at = { bucketType: 'sets', bucket: newBucket() };
    const { generatedKey } = await call('updateSet', { ...at, additions: ['ann'] });
    const { values } = await call('fetchSet', { ...at, key: generatedKey });
    assert.deepStrictEqual(values, ['ann']);
});

test('a map has fields of every type', async () => {
    const { MapOperation } = Riak.Commands.CRDT.UpdateMap;
    const at = { bucketType: 'maps', bucket: newBucket(), key: 'k' };
    const op = new MapOperation();
    op.incrementCounter('logins', 3)
        .addToSet('langs', 'en')
        .setRegister('name', Buffer.from('Ann'))
        .setFlag('admin', true);
    op.map('home').setRegister('city', Buffer.from('Nara'));
    await call('updateMap', { ...at, op });
    const { map, context } = await call('fetchMap', at);
    assert.strictEqual(Number(map.counters.logins), 3);
    assert.deepStrictEqual(map.sets.langs, ['en']);
    assert.strictEqual(map.registers.name.toString(), 'Ann');
    assert.strictEqual(map.flags.admin, true);
    assert.strictEqual(map.maps.home.registers.city.toString(), 'Nara');
    const removal = new MapOperation();
    removal.removeRegister('name').setFlag('admin', false);
    await call('updateMap', { ...at, op: removal, context });
    const left = (await call('fetchMap', at)).map;
    assert.strictEqual(left.registers.name, undefined);
    assert.strictEqual(left.flags.admin, false);
});

test('a cluster keeps what it acknowledged when a node dies', async () => {
    const addresses = process.env.TEST_CLUSTER.split(',');
    const connect = (nodes) => promisify((done) => new Riak.Client(nodes, done))();
    const [writers, rounds] = [4, 30];
    const at = (bucketType) => ({ bucketType, bucket: 'b', key: 'k' });
    const all = await connect(addresses);
    const ask = (from, name, options) => promisify(from[name]).call(from, options);
    let started = 0;
    let unknown = 0;
    const count = async () => {
        try {
            await ask(all, 'updateCounter', { ...at('counters'), increment: 1 });
        } catch (error) {
            // It was with the node that died, and may have been counted: nobody counts it again.
            if (!String(error).includes('timeout')) throw error;
            unknown += 1;
        }
    };
    const write = async (number) => {
        for (let turn = 0; turn < rounds; turn += 1) {
            if (turn === rounds / 3) {
                started += 1;
                if (started === writers) {
                    process.kill(Number(process.env.TEST_VICTIM), 'SIGKILL');
                }
            }
            await count();
            await ask(all, 'updateSet', { ...at('sets'), additions: [number + '-' + turn] });
        }
    };
    const numbers = [...Array(writers).keys()];
    await Promise.all(numbers.map(write));
    assert.ok(unknown <= writers, unknown + ' increments of which nobody knows');
    const wanted = numbers.flatMap((number) =>
        [...Array(rounds).keys()].map((turn) => number + '-' + turn)).sort();
    for (const address of addresses.filter((_, place) => place !== 2)) {
        const one = await connect([address]);
        const { counterValue } = await ask(one, 'fetchCounter', at('counters'));
        // What clients had under way to the node that died may have been counted there, and was sent again.
        const beyond = Number(counterValue) - writers * rounds;
        assert.ok(beyond >= -unknown && beyond <= writers, 'counted ' + counterValue);
        const { values } = await ask(one, 'fetchSet', at('sets'));
        assert.deepStrictEqual(values.sort(), wanted);
        await promisify(one.stop).call(one);
    }
    await promisify(all.stop).call(all);
});

// Runs a MapReduce job: the results of each phase.
const mapReduce = (riak, job) => new Promise((resolve, reject) => {
    const phases = {};
    riak.mapReduce(JSON.stringify(job), (error, response) => {
        if (error) {
            return reject(error);
        }
        if (response.done) {
            resolve(phases);
        } else {
            phases[response.phase] = (phases[response.phase] || []).concat(response.response);
        }
    });
});

const erlang = (name, more) => Object.assign(
    { language: 'erlang', module: 'riak_kv_mapreduce', function: name }, more);

test('a MapReduce job maps and reduces', async () => {
    const bucket = newBucket();
    for (const number of [1, 2, 30]) {
        await store(bucket, 'k' + number, String(number), { bucketType: 'default' });
    }
    const phases = await mapReduce(client, { inputs: bucket, query: [
        { map: erlang('map_object_value', { keep: true }) },
        { reduce: erlang('reduce_string_to_integer') }, { reduce: erlang('reduce_sum') }] });
    assert.deepStrictEqual(phases[0].sort(), ['1', '2', '30']);
    assert.deepStrictEqual(phases[2], [33]);
    const refused = mapReduce(client, { inputs: bucket,
        query: [{ map: { language: 'javascript', name: 'Riak.mapValues' } }] });
    await assert.rejects(refused, /mapreduce.javascript/);
});

test('a MapReduce job with functions in JavaScript runs where they are switched on', async () => {
    const scripts = await promisify((done) =>
        new Riak.Client([process.env.TEST_SCRIPTS_PB], done))();
    const bucket = newBucket();
    for (const number of [1, 2, 30]) {
        await promisify(scripts.storeValue).call(scripts,
            { bucket, key: 'k' + number, value: textObject(String(number)) });
    }
    const phases = await mapReduce(scripts, { inputs: bucket, query: [
        { map: { language: 'javascript', name: 'Riak.mapValuesJson' } },
        { reduce: { language: 'javascript', source: 'function(v) { return [Math.max.apply(null, v)]; }' } },
    ] });
    assert.deepStrictEqual(phases[1], [30]);
    await promisify(scripts.stop).call(scripts);
});

async function main() {
    let failed = 0;
    const connected = (address) => promisify((done) => new Riak.Client([address], done))();
    client = await connected(process.env.TEST_PB);
    for (const { name, body } of tests) {
        try {
            await body();
            console.log('pass ' + name);
        } catch (error) {
            failed += 1;
            console.log('FAIL ' + name + '\n' + (error.stack || error));
        }
    }
    console.log((tests.length - failed) + ' passed, ' + failed + ' failed');
    client.stop(() => process.exit(failed ? 1 : 0));
}

main().catch((error) => {
    console.log(error.stack || error);
    console.log('0 passed, ' + tests.length + ' failed');
    process.exit(1);
});
