// The logic of a report's page without a page: sorting, searching, finding the point under a mouse.
// Run by node with the files of autotune/report as arguments.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const vm = require("node:vm");

const page = vm.createContext({});
for (const file of process.argv.slice(2))
  vm.runInContext(fs.readFileSync(file, "utf8"), page, { filename: file });
const same = (a, b) => assert.deepStrictEqual(JSON.parse(JSON.stringify(a)), b);

// All words, anywhere, whatever their case.
same(page.wordsOf("  Norm  BF16 "), ["norm", "bf16"]);
assert(page.matches("layer_norm 64x128 bf16 backward", page.wordsOf("BACK norm")));
assert(!page.matches("layer_norm 64x128 bf16", page.wordsOf("back norm")));
assert(page.matches("anything", page.wordsOf("")));
assert(!page.matches("a+b", page.wordsOf("a.b")), "no patterns");

// Numbers by size, labels as people count, what is not known last either way.
const sorted = (list, descending) => [...list].sort((a, b) => page.compare(a, b, descending));
same(sorted([3, null, 20, 1], false), [1, 3, 20, null]);
same(sorted([3, null, 20, 1], true), [20, 3, 1, null]);
same(sorted(["rms_norm 10x8", "rms_norm 9x8", "gate 7"], false),
     ["gate 7", "rms_norm 9x8", "rms_norm 10x8"]);
same(sorted(["a", "b"], true), ["b", "a"]);

assert.strictEqual(page.countText(3, 3), "3 kernels");
assert.strictEqual(page.countText(0, 3), "0 of 3 kernels");
assert.strictEqual(page.countText(1, 1), "1 kernel");

// The nearest of points and of paths, within reach.
const segments = [{ owner: 4, x1: 10, y1: 10, x2: 10, y2: 10 },
                  { owner: 7, x1: 20, y1: 10, x2: 20, y2: 10 },
                  { owner: 9, x1: 0, y1: 100, x2: 100, y2: 100 }];
assert.strictEqual(page.nearest(segments, 12, 11, 22), 4);
assert.strictEqual(page.nearest(segments, 18, 11, 22), 7);
assert.strictEqual(page.nearest(segments, 55, 90, 22), 9);
assert.strictEqual(page.nearest(segments, 55, 50, 22), -1);
assert.strictEqual(page.nearest([], 0, 0, 22), -1);

// Ticks.
same(page.powers(250000, 3e6), [1e5, 1e6, 1e7]);
same(page.powers(1000, 1000), [1000, 10000]);
same(page.steps(5000, 5), [0, 1000, 2000, 3000, 4000, 5000]);
same(page.steps(0.02, 4).map(x => +x.toFixed(6)), [0, 0.005, 0.01, 0.015, 0.02]);
assert.strictEqual(page.bytesText(1.5e6), "1.5 MB");
assert.strictEqual(page.bytesText(1e10), "10 GB");
console.log("the page's logic is as it should be");
