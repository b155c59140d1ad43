// The JavaScript kernel, given to node -e. It speaks records (4 bytes of length, big endian, then JSON) on the descriptor
// DAYFLY_CONTROL: takes {"run", "code", "cap", "settle", "lent"}, sends {"ready"}, {"display"} and {"done"}; see records.py.
//
// Cells are evaluated by V8's inspector in its REPL mode, as the console of a browser does: top-level await, `let`,
// `const` and `class` that may be declared again. SIGINT breaks synchronous code by the watchdog of `vm`, and waiting
// by a handler. Only features of Node 18.

'use strict';

(() => {
  const fs = require('node:fs');
  const inspector = require('node:inspector');
  const net = require('node:net');
  const path = require('node:path');
  const util = require('node:util');
  const vm = require('node:vm');
  const { Console } = require('node:console');
  const { createRequire } = require('node:module');
  const { pathToFileURL } = require('node:url');

  const control = Number(process.env.DAYFLY_CONTROL);
  delete process.env.DAYFLY_CONTROL;

  const BINARY = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf']);
  const MAX_TEXT = 8 * 1024; // characters of an error's message; records.py has the reasons
  const HARD_LIMIT = 32 * 1024 * 1024; // bytes of one record; records.py again
  const HIDDEN = '__dayfly__';
  const SETTLE_MILLISECONDS = 20; // for the watchdog's thread to start, on a busy machine too

  const session = new inspector.Session();
  session.connect();

  // --- writing ------------------------------------------------------------------------------------------------------
  // An interrupt breaks code off anywhere, also inside of node's streams, which are out of order ever after. So nothing
  // here uses them. A record that was broken off is sent on before anything else is, unless it was in the system call
  // itself: then it has left, as far as can be told.

  const pause = new Int32Array(new SharedArrayBuffer(4));

  class Outlet {
    constructor(fd) {
      this.fd = fd;
      this.waiting = [];
      this.at = 0;
      this.resting = false;
    }

    brokenOff() {
      if (this.waiting.length && this.at === 0 && !this.resting) this.waiting.shift();
      this.resting = false;
    }

    write(buffer) {
      this.waiting.push(buffer);
      while (this.waiting.length) {
        const first = this.waiting[0];
        while (this.at < first.length) this.at += this.writeSome(first);
        this.waiting.shift();
        this.at = 0;
      }
    }

    writeSome(buffer) {
      try {
        return fs.writeSync(this.fd, buffer, this.at);
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        this.resting = true;
        Atomics.wait(pause, 0, 0, 1); // the reader is slow: that is back-pressure, not an error
        this.resting = false;
        return 0;
      }
    }
  }

  const outlet = new Outlet(control);

  // In the place of a stream's `write`.
  function plainWrite(fd) {
    return (chunk, encoding, callback) => {
      const target = new Outlet(fd); // what was broken off of earlier text is not worth a repetition
      const known = typeof encoding === 'string' ? encoding : 'utf8';
      target.write(typeof chunk === 'string' ? Buffer.from(chunk, known) : Buffer.from(chunk));
      const done = typeof encoding === 'function' ? encoding : callback;
      if (typeof done === 'function') process.nextTick(done);
      return true;
    };
  }

  // --- records ------------------------------------------------------------------------------------------------------

  function encode(record) {
    const payload = Buffer.from(JSON.stringify(record));
    const header = Buffer.alloc(4);
    header.writeUInt32BE(payload.length);
    return Buffer.concat([header, payload]);
  }

  // --- results ------------------------------------------------------------------------------------------------------

  let cap = 0;

  function publish(data, main) {
    let encoded = encode({ display: { data, metadata: {}, main, omitted: 0 } });
    if (encoded.length > cap) {
      encoded = encode({ display: { data: {}, metadata: {}, main, omitted: encoded.length } });
    }
    outlet.write(encoded);
  }

  function isBundle(value) {
    if (value === null || typeof value !== 'object') return false;
    const keys = Object.keys(value);
    return keys.length > 0 && keys.every((key) => /^[a-z]+\/[\w.+-]+$/i.test(key));
  }

  // What payloads.py would refuse is left out here: nesting, and the number of values.
  function isSmall(value, depth = 0, count = { left: 200000 }) {
    if ((count.left -= 1) < 0 || depth > 50) return false;
    return value === null || typeof value !== 'object' || Object.values(value).every((one) => isSmall(one, depth + 1, count));
  }

  function sendable(type, value) {
    if (type === 'application/json' || type.endsWith('+json')) {
      const text = JSON.stringify(value);
      const plain = text === undefined ? undefined : JSON.parse(text);
      return isSmall(plain) ? plain : undefined;
    }
    if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
    if (typeof value !== 'string') return undefined;
    return BINARY.has(type) ? Buffer.from(value, 'base64').toString('base64') : value;
  }

  // Show a value, or an object whose keys are MIME types, as a result of the run.
  function display(...values) {
    for (const value of values) {
      const data = {};
      for (const [type, item] of isBundle(value) ? Object.entries(value) : [['text/plain', util.inspect(value)]]) {
        const text = sendable(type, item);
        if (text !== undefined) data[type] = text;
      }
      publish(data, false);
    }
  }

  // --- evaluating ---------------------------------------------------------------------------------------------------

  class Exit extends Error {
    constructor(code) {
      super(`process.exit(${code})`);
      this.name = 'Exit';
      this.exitCode = code;
    }
  }

  const INTERRUPTED = new Error('interrupted');
  const hidden = { work: undefined, value: undefined, load };
  const guard = new vm.Script(`${HIDDEN}.work()`, { filename: HIDDEN });

  // Call `work` such that SIGINT breaks it. (Node takes the other handler of SIGINT away meanwhile. In the few microseconds
  // in which neither is there, at the beginning and at the end, a SIGINT ends the process, and the agent says so.)
  function breakable(work) {
    hidden.work = work;
    try {
      return guard.runInThisContext({ breakOnSigint: true });
    } catch (error) {
      if (!error || error.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
      outlet.brokenOff();
      throw INTERRUPTED;
    }
  }

  // import() is not to be had in REPL mode: cells call this instead.
  function load(name) {
    const local = /^(\.{0,2}\/)/.test(name);
    return import(local ? pathToFileURL(path.resolve(String(name))).href : name);
  }

  // The value behind one of the inspector's descriptions.
  function unwrap(remote) {
    if (remote.objectId !== undefined) {
      const functionDeclaration = `function () { 'use strict'; ${HIDDEN}.value = this; }`;
      session.post('Runtime.callFunctionOn', { functionDeclaration, objectId: remote.objectId, silent: true });
      const value = hidden.value;
      hidden.value = undefined;
      return value;
    }
    if (remote.unserializableValue !== undefined) return vm.runInThisContext(remote.unserializableValue);
    return remote.value;
  }

  function evaluate(code, name) {
    const expression = `${rewriteImports(code)}\n//# sourceURL=${name}`;
    const parameters = { expression, replMode: true, objectGroup: name, silent: true };
    let answered;
    const answer = new Promise((resolve, reject) => {
      answered = (error, result) => {
        if (error) reject(Object.assign(new Error(error.message), { name: 'EvaluationError' }));
        else if (result.exceptionDetails) reject(new Raised(result.exceptionDetails));
        else resolve({ value: unwrap(result.result) }); // boxed: a promise is not to be awaited here
      };
    });
    breakable(() => session.post('Runtime.evaluate', parameters, answered));
    return answer;
  }

  // What a cell threw, which may be anything.
  class Raised {
    constructor(details) {
      this.details = details;
      this.error = details.exception ? unwrap(details.exception) : new Error(details.text);
    }
  }

  // `import x from 'y'` and import('y') in a cell become calls of `load`; strings, comments and the like stay.
  function rewriteImports(code) {
    if (!/\bimport\b/.test(code)) return code;
    let out = '';
    let before = ''; // the last thing that was not blank
    const token = /\s+|\/\/.*|\/\*[^]*?\*\/|"(?:\\[^]|[^"\\])*"|'(?:\\[^]|[^'\\])*'|`(?:\\[^]|[^`\\])*`|[\w$]+|[^]/gy;
    const regex = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y;
    for (let at = 0; at < code.length; at = token.lastIndex) {
      token.lastIndex = at;
      let [text] = token.exec(code);
      if (text === '/' && !/^[\w$)\]}]/.test(before.slice(-1))) {
        regex.lastIndex = at;
        const found = regex.exec(code);
        if (found) {
          text = found[0];
          token.lastIndex = regex.lastIndex;
        }
      }
      if (text === 'import' && before !== '.') {
        const [replacement, length] = rewriteImport(code.slice(at));
        out += replacement;
        token.lastIndex = at + length;
        before = 'import';
        continue;
      }
      out += text;
      if (!/^(\s|\/\/|\/\*)/.test(text)) before = text;
    }
    return out;
  }

  const STATIC = /^import\s*(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?\s*(?:from\s*)?(["'])((?:(?!\4).)*)\4\s*;?/;

  function rewriteImport(code) {
    if (/^import\s*\(/.test(code)) return [`${HIDDEN}.load`, 'import'.length];
    const found = STATIC.exec(code);
    if (!found) return ['import', 'import'.length];
    const [whole, single, namespace, names, , name] = found;
    const parts = [];
    if (single) parts.push(`default: ${single}`);
    if (names) parts.push(...names.split(',').map((one) => one.trim().replace(/\s+as\s+/, ': ')).filter(Boolean));
    const target = JSON.stringify(name);
    const lines = '\n'.repeat(whole.split('\n').length - 1);
    const loaded = `await ${HIDDEN}.load(${target})`;
    const bindings = [];
    if (namespace) bindings.push(`${namespace} = ${loaded}`);
    if (parts.length) bindings.push(`{ ${parts.join(', ')} } = ${loaded}`);
    return [`${bindings.length ? `const ${bindings.join(', ')}` : loaded};${lines}`, whole.length];
  }

  // --- errors -------------------------------------------------------------------------------------------------------

  const LIMITS = { ENOMEM: 'memory', ENOSPC: 'disk', EDQUOT: 'disk', EFBIG: 'disk', EMFILE: 'open_files', ENFILE: 'open_files' };

  function limitOf(error) {
    if (error instanceof RangeError && /allocation failed|Invalid (array buffer|typed array) length/i.test(error.message)) return 'memory';
    const code = error && error.code;
    if (code === 'EAGAIN' && /spawn|fork/.test(String(error.syscall))) return 'processes';
    const limit = LIMITS[code];
    return limit === 'disk' && String(error.path).startsWith('/dev/shm/') ? 'shm' : limit || null;
  }

  const OWN_FRAME = /^\s+at .*(node:inspector:|__dayfly__|\[eval\d*\]|sigintHandlersWrap|Script\.runInThisContext \(node:vm)/;

  // Without the frames of this file and of what it calls a cell with.
  function ownFramesLeftOut(text) {
    return text.split('\n').filter((line) => !OWN_FRAME.test(line)).join('\n');
  }

  function stackOf(error, details, name) {
    let stack = ownFramesLeftOut(typeof error.stack === 'string' ? error.stack : String(error));
    if (details && details.lineNumber !== undefined && !stack.includes('\n    at ')) {
      stack += `\n    at ${name}:${details.lineNumber + 1}:${details.columnNumber + 1}`;
    }
    return stack;
  }

  function describe(raised, name) {
    const error = raised instanceof Raised ? raised.error : raised;
    if (!(error instanceof Error)) {
      const text = util.inspect(error);
      return { name: 'Uncaught', value: text, traceback: `Uncaught ${text}` };
    }
    const traceback = stackOf(error, raised instanceof Raised ? raised.details : null, name);
    const cause = error.cause === undefined ? '' : `\ncaused by ${ownFramesLeftOut(util.inspect(error.cause))}`;
    return { name: String(error.name), value: String(error.message), traceback: traceback + cause };
  }

  function outcomeOf(raised, name) {
    if (raised === INTERRUPTED) {
      const error = { name: 'Interrupted', value: 'the run was interrupted', traceback: '' };
      return { status: 'interrupted', error, limit: null, exit_code: null };
    }
    const error = raised instanceof Raised ? raised.error : raised;
    if (error instanceof Exit) {
      const code = Number(error.exitCode || 0) & 0xff;
      const told = { name: 'Exit', value: String(code), traceback: error.message };
      return { status: code ? 'error' : 'ok', error: code ? told : null, limit: null, exit_code: code };
    }
    let told;
    try {
      told = describe(raised, name);
    } catch {
      told = { name: 'Error', value: 'an error that cannot be described', traceback: '' };
    }
    const clip = (text, size) => (text.length > size ? `${text.slice(0, size)} ...` : text);
    told = { name: clip(told.name, 250), value: clip(told.value, MAX_TEXT), traceback: clip(told.traceback, 5 * MAX_TEXT) };
    return { status: 'error', error: told, limit: limitOf(error), exit_code: null };
  }

  // --- what is lent -------------------------------------------------------------------------------------------------

  // Each variable gets its new value if it has the one that is expected; see lent.py. Code may have replaced anything.
  function takeOver({ rows, authority, file }) {
    try {
      for (const [name, before, after] of rows) {
        if ((process.env[name] ?? null) !== before) continue;
        if (after === null) delete process.env[name];
        else process.env[name] = after;
      }
      believe(process.env.NODE_EXTRA_CA_CERTS === file ? authority : '');
    } catch (error) {
      uncaught(error);
    }
  }

  let believed = '';
  let isWrapped = false;

  // Node reads NODE_EXTRA_CA_CERTS when it starts and never again. So every context that has no list of its own is given
  // one authority more. What node was started with, it believes as long as it lives.
  function believe(authority) {
    believed = authority;
    if (!authority || isWrapped) return;
    const tls = require('node:tls');
    const create = tls.createSecureContext;
    tls.createSecureContext = function createSecureContext(options, ...more) {
      if (!believed || (options && options.ca)) return create.call(this, options, ...more);
      return plainContext(tls, options, () => {
        const made = create.call(this, options, ...more);
        made.context.addCACert(believed);
        return made;
      });
    };
    isWrapped = true;
  }

  // What makes a context different from others; and what of the module's does.
  const OWN = [
    'cert', 'key', 'pfx', 'passphrase', 'crl', 'ciphers', 'sigalgs', 'ecdhCurve', 'dhparam', 'minVersion', 'maxVersion',
    'secureProtocol', 'secureOptions', 'honorCipherOrder', 'sessionIdContext', 'sessionTimeout', 'ticketKeys',
    'privateKeyIdentifier', 'privateKeyEngine', 'clientCertEngine', 'allowPartialTrustChain',
  ];
  const DEFAULTS = ['DEFAULT_MIN_VERSION', 'DEFAULT_MAX_VERSION', 'DEFAULT_CIPHERS', 'DEFAULT_ECDH_CURVE'];
  let shared = { of: '', context: null };

  // To add an authority, node 18 reads all roots anew, for 40 ms: connections that ask for nothing special share a context.
  function plainContext(tls, options, make) {
    if (options && OWN.some((name) => options[name] !== undefined && options[name] !== null)) return make();
    const of = JSON.stringify([believed, ...DEFAULTS.map((name) => tls[name])]);
    if (shared.of !== of) shared = { of, context: make() };
    return shared.context;
  }

  // --- runs ---------------------------------------------------------------------------------------------------------

  let stop = null; // of the run under way: rejects what it waits for

  const writes = { stdout: plainWrite(1), stderr: plainWrite(2) };
  const original = {
    exit: process.exit,
    kill: process.kill,
    setImmediate,
    console: new Console({
      stdout: { write: writes.stdout },
      stderr: { write: writes.stderr },
      ignoreErrors: false,
      colorMode: false,
    }),
  };
  const listeners = ['newListener', 'removeListener'].map((event) => [event, process.listeners(event)]); // signals need them

  function restore() {
    globalThis.console = original.console;
    process.stdout.write = writes.stdout;
    process.stderr.write = writes.stderr;
    process.exit = exit;
    for (const [event, wanted] of listeners) {
      for (const one of wanted) if (!process.listeners(event).includes(one)) process.on(event, one);
    }
    if (!process.listeners('SIGINT').includes(interrupted)) process.on('SIGINT', interrupted);
    if (!process.listeners('SIGHUP').includes(hungUp)) process.on('SIGHUP', hungUp);
    if (!process.listeners('uncaughtException').includes(uncaught)) process.on('uncaughtException', uncaught);
    if (!process.listeners('unhandledRejection').includes(uncaught)) process.on('unhandledRejection', uncaught);
  }

  function exit(code) {
    throw new Exit(code === undefined ? process.exitCode : code);
  }

  function interrupted() {
    if (stop) stop(INTERRUPTED);
  }

  // A SIGINT for the run before may still be on its way, and would hit the next one. Through node's loop: there they come
  // in order, so one of our own is the last. Through the watchdog of `vm`: a signal that comes as the guarded code ends is
  // left in its semaphore, and breaks what is guarded next (Node 18 to 20), so something is that is worth nothing.
  async function settle() {
    const others = process.listeners('SIGINT');
    await new Promise((resolve) => {
      process.once('SIGINT', resolve);
      for (const other of others) process.removeListener('SIGINT', other); // ours is there: none ends the process
      original.kill.call(process, process.pid, 'SIGINT');
    });
    await new Promise((resolve) => original.setImmediate(resolve));
    for (const other of others) process.on('SIGINT', other);
    for (let tries = 0; tries < 10 && isBroken(); tries += 1);
  }

  function isBroken() {
    try {
      breakable(() => Atomics.wait(pause, 0, 0, SETTLE_MILLISECONDS));
      return false;
    } catch (error) {
      if (error !== INTERRUPTED) throw error;
      return true;
    }
  }

  // The agent's way of killing may send one.
  function hungUp() {}

  // Of timers and callbacks: they belong to no run for sure, and must not end the kernel.
  function uncaught(error) {
    if (error instanceof Exit) {
      if (stop) stop(error);
      return;
    }
    try {
      writes.stderr(`Uncaught ${ownFramesLeftOut(util.inspect(error))}\n`);
    } catch {
      writes.stderr('Uncaught error that cannot be shown\n');
    }
  }

  async function runCell(code, name) {
    const stopped = new Promise((_, reject) => {
      stop = reject;
    });
    stopped.catch(() => {});
    let { value } = await Promise.race([evaluate(code, name), stopped]);
    if (util.types.isPromise(value)) value = await Promise.race([value, stopped]); // `main()` at the end of a cell
    if (value !== undefined) publish({ 'text/plain': breakable(() => util.inspect(value)) }, true);
  }

  // Timers, servers and whatever else goes on now that the cell is over. What the kernel itself has was there before.
  function background() {
    return Math.max(0, process.getActiveResourcesInfo().length - resourcesOfOurOwn);
  }

  async function execute(request) {
    const name = `cell-${request.run}`;
    cap = Math.min(request.cap, HARD_LIMIT);
    process.exitCode = undefined;
    restore();
    if (request.lent) takeOver(request.lent);
    if (request.settle) await settle();
    let outcome = { status: 'ok', error: null, limit: null, exit_code: null };
    try {
      await runCell(request.code, name);
    } catch (raised) {
      outcome = outcomeOf(raised, name);
    }
    stop = null;
    session.post('Runtime.releaseObjectGroup', { objectGroup: name });
    outlet.write(encode({ done: request.run, ...outcome, background: background() }));
  }

  // --- the loop -----------------------------------------------------------------------------------------------------

  for (const stream of [process.stdout, process.stderr]) {
    const handle = stream._handle; // it made the pipe non-blocking, for programs that are started with it too
    if (handle && handle.setBlocking) handle.setBlocking(true);
  }
  Object.defineProperty(globalThis, HIDDEN, { value: hidden });
  Object.assign(globalThis, { require: createRequire(path.join(process.cwd(), 'cell.js')), display });
  globalThis.module = { exports: {} };
  globalThis.exports = globalThis.module.exports;
  restore();

  let pending = Buffer.alloc(0);
  const socket = new net.Socket({ fd: control, readable: true, writable: false });
  socket.on('data', (chunk) => {
    pending = pending.length ? Buffer.concat([pending, chunk]) : chunk;
    while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32BE(0)) {
      const end = 4 + pending.readUInt32BE(0);
      const request = JSON.parse(pending.subarray(4, end).toString());
      pending = pending.subarray(end);
      execute(request);
    }
  });
  socket.on('end', () => original.exit.call(process, 0));
  socket.on('error', () => original.exit.call(process, 0));
  const resourcesOfOurOwn = process.getActiveResourcesInfo().length;
  outlet.write(encode({ ready: { kernel: 'node', reason: '', version: process.version } }));
})();
