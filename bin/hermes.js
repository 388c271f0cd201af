#!/usr/bin/env node
// Plain JavaScript that every Node since 14 can read: the version is checked before anything else is loaded, because the
// database driver kills an older Node outright instead of failing with a message.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import module from 'node:module';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

const needed = 24;

if (majorOf(process.versions.node) >= needed) {
  // Node strips types only outside node_modules, so an installed package brings emitted JavaScript instead of src.
  const source = new URL('../src/cli.ts', import.meta.url);
  // Types are stripped and scripts compiled once, not at every start: half the time and 25 MB. Where the folder cannot be written, all goes on without it.
  module.enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/hermes', import.meta.url)));
  await import(existsSync(source) ? source.href : new URL('../dist/cli.js', import.meta.url).href);
} else {
  const newer = installedNode();
  if (newer === undefined) refuse();
  else runWith(newer);
}

function majorOf(version) {
  return Number(version.split('.')[0]);
}

/** The Node of the npm package `node`: beside this package's own files, or hoisted beside the package. */
function installedNode() {
  const name = process.platform === 'win32' ? 'node.exe' : 'node';
  return ['../node_modules/node/', '../../node/']
    .map((folder) => new URL(folder, import.meta.url))
    .filter((folder) => existsSync(new URL('package.json', folder)) && majorOf(JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')).version) >= needed)
    .map((folder) => fileURLToPath(new URL(`bin/${name}`, folder)))
    .find((path) => existsSync(path));
}

function runWith(node) {
  const child = spawn(node, [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' });
  // Ctrl-C in a terminal reaches both processes by itself; passing it on would count as a second one.
  const atTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT']) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !atTerminal) child.kill(signal);
    });
  }
  child.on('error', (error) => {
    console.error(`${node}: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]));
}

function refuse() {
  const found = `${process.versions.node} (${process.execPath})`;
  const folder = fileURLToPath(new URL('../', import.meta.url));
  console.error(`hermes needs Node.js ${needed} or newer, but this is Node.js ${found}: install Node.js ${needed}, or run "npm ci" in ${folder}, which brings its own.`);
  console.error(`hermes 需要 Node.js ${needed} 或更高版本，当前运行的是 Node.js ${found}：请安装 Node.js ${needed}，或在 ${folder} 中运行 "npm ci"，它会自带一份。`);
  process.exit(1);
}
