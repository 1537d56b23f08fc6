// Runs the conformance suite of the Model Context Protocol against a real host on the loopback.
//
//   node run.mjs REMEM SUITE FOLDER
//
// REMEM is the program, SUITE the suite's index.js, FOLDER takes the host's data and the results. For each
// version of the protocol there is a list of the failures that are expected, with their reasons, beside this
// file. A failure that is not listed fails the run, and so does a listed check that passes.
//
// The suite cannot send a key, so a proxy adds one to its requests; it changes nothing else.

import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import readline from "node:readline";

const VERSIONS = ["2026-07-28", "2025-11-25"];
const KEY = "key-of-the-conformance-suite";
const [remem, suite, folder] = process.argv.slice(2);

async function startHost() {
  const data = path.join(folder, "data");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(data, { recursive: true });
  // Settings of the surroundings are not the host's.
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("REMEM_"));
  const host = spawn(remem, ["--data-dir", data, "serve", "--listen", "127.0.0.1:0"], {
    env: { ...Object.fromEntries(kept), REMEM_BOOTSTRAP_KEY: KEY },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of readline.createInterface({ input: host.stdout })) {
    const greeting = line.match(/ is ready at (http:\/\/\S+)/);
    if (greeting) return [host, new URL(greeting[1])];
  }
  throw new Error("the host did not start");
}

function startProxy(target) {
  const proxy = http.createServer((request, response) => {
    const { method, url, rawHeaders } = request;
    const headers = [...rawHeaders, "authorization", `Bearer ${KEY}`];
    const { hostname, port } = target;
    const passed = http.request({ hostname, port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.rawHeaders);
      response.flushHeaders();
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  return new Promise((done) => proxy.listen(0, "127.0.0.1", () => done(proxy)));
}

function runSuite(version, port) {
  const expected = path.join(import.meta.dirname, `expected-failures-${version}.yml`);
  const options = ["server", "--url", `http://localhost:${port}/mcp`, "--suite", "all", "--spec-version", version];
  options.push("--expected-failures", expected, "--output-dir", path.join(folder, version));
  console.log(`--- MCP ${version}`);
  const run = spawn(process.execPath, [suite, ...options], { stdio: "inherit" });
  return new Promise((done) => run.on("exit", (code) => done(code ?? 1)));
}

const [host, target] = await startHost();
const proxy = await startProxy(target);
let failed = 0;
try {
  for (const version of VERSIONS) failed |= await runSuite(version, proxy.address().port);
} finally {
  host.kill();
  proxy.close();
  proxy.closeAllConnections();
}
process.exit(failed);
