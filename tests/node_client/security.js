// Drives a node that has users, rights and TLS with Riak's own client for Node.js. TEST_PB has its address,
// TEST_FILES the folder of certificates that security.py has made, TEST_LOG the file of the node's log.
// Prints one line for each test and closes with `N passed, N failed`.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const { promisify } = require('util');

require('winston').remove(require('winston').transports.Console);
const Riak = require('basho-riak-client');
const RiakConnection = require('basho-riak-client/lib/core/riakconnection');

const [host, port] = process.env.TEST_PB.split(':');
const read = (name) => fs.readFileSync(path.join(process.env.TEST_FILES, name), 'utf8');
const tests = [];
const test = (name, body) => tests.push({ name, body });

const withPassword = (user, password) => ({ user, password, ca: [read('ca.pem')] });
const withCertificate = (user, name) => ({
    user, ca: [read('ca.pem')], cert: read(name + '.pem'), key: read(name + '.key') });

// A client with these credentials, for as long as the body runs.
const withClient = async (auth, body) => {
    const node = new Riak.Node({ remoteAddress: host, remotePort: Number(port), auth });
    const cluster = new Riak.Cluster({ nodes: [node], executionAttempts: 1 });
    const client = await new Promise((resolve, reject) => {
        const made = new Riak.Client(cluster, (fault) => fault ? reject(fault) : resolve(made));
    });
    const call = (name, ...options) => promisify(client[name]).call(client, ...options);
    try {
        await body(call);
    } finally {
        await new Promise((resolve) => client.stop(resolve));
    }
};

const serves = (auth) => withClient(auth, async (call) => {
    const value = { it: auth.user };
    await call('storeValue', { bucket: 'secured-node', key: auth.user, value });
    const got = await call('fetchValue', { bucket: 'secured-node', key: auth.user, convertToJs: true });
    assert.deepStrictEqual(got.values[0].value, value);
});

// The reason that the node's log has, behind its first `from` characters, for a certificate that it refused.
const toldByNode = async (from, words) => {
    for (const end = Date.now() + 10000; ;) {
        const log = fs.readFileSync(process.env.TEST_LOG, 'utf8').slice(from);
        const line = log.split('\n').find((each) => each.includes('the certificate of a client is refused'));
        if (line) {
            assert.ok(line.includes(words), line);
            return;
        }
        assert.ok(Date.now() < end, 'the node refused no certificate:\n' + log);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
};

// The client must get no connection, and the node must have refused its certificate for the reason. It
// mostly sees no more than the end: the client sends its login at once, and the alert is lost behind that.
const refusesCertificate = async (auth, seen, words) => {
    const from = fs.statSync(process.env.TEST_LOG).size;
    assert.match(await refusal(auth), seen);
    await toldByNode(from, words);
};

// The reason that the client gives for a connection that it did not get.
const refusal = (auth) => new Promise((resolve, reject) => {
    const connection = new RiakConnection({
        remoteAddress: host, remotePort: Number(port), auth, connectionTimeout: 10000 });
    connection.on('connected', () => {
        connection.close();
        reject(new Error('the node let the client in'));
    });
    connection.on('connectFailed', (failed, fault) => resolve(String(fault)));
    // The client logs a handshake that failed, and tells nobody else. An alert may be lost behind its login,
    // which it sends without waiting for the end of the handshake.
    connection._socketError = (fault) => resolve(fault ? String(fault) : 'closed without an answer');
    connection.connect();
});

test('a password lets in', () => serves(withPassword('pass', 'secret')));

test('trust lets in without a password', () => serves(withPassword('trusted', '')));

test('a certificate lets in', () => serves(withCertificate('certuser', 'certuser')));

test('a wrong password does not', async () => {
    assert.match(await refusal(withPassword('pass', 'wrong')), /Authentication failed/);
});

test('a user that does not exist is not let in', async () => {
    assert.match(await refusal(withPassword('nobody', 'secret')), /Authentication failed/);
});

test('the certificate of another does not let in', async () => {
    assert.match(await refusal(withCertificate('certuser', 'certother')), /Authentication failed/);
});

test('a certificate of another authority ends the handshake', async () => {
    await refusesCertificate(withCertificate('certuser', 'certbadca'),
        /unknown ca|decrypt error|closed without an answer/, 'an authority that is not trusted here');
});

test('a revoked certificate ends the handshake', async () => {
    await refusesCertificate(withCertificate('revoked', 'revoked'),
        /certificate revoked|closed without an answer/, 'is revoked');
});

test('an operation that was not granted is refused', () =>
    withClient(withPassword('poor', 'secret'), (call) => assert.rejects(
        call('fetchValue', { bucket: 'b', key: 'k' }),
        /Permission denied: User 'poor' does not have 'riak_kv.get' on default\/b/)));

const main = async () => {
    let [passed, failed] = [0, 0];
    for (const { name, body } of tests) {
        try {
            await body();
            passed += 1;
            console.log('ok   ' + name);
        } catch (fault) {
            failed += 1;
            console.log('FAIL ' + name + '\n     ' + (fault && fault.stack || fault));
        }
    }
    console.log(passed + ' passed, ' + failed + ' failed');
    process.exit(failed ? 1 : 0);
};

main();
