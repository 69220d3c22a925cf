// Searches a built documentation site by its own search: the script that the pages run, in place of a browser.
//
// node site_search.js SITE < {"queries": ["words", ...]}: prints, for each query, the pages in the order in which a reader sees them.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const scripts = path.join(process.argv[2], "assets/javascripts/workers");
const script = fs.readdirSync(scripts).find((name) => /^search\..*\.js$/.test(name));
const index = JSON.parse(fs.readFileSync(path.join(process.argv[2], "search/search_index.json"), "utf8"));
const { queries } = JSON.parse(fs.readFileSync(0, "utf8"));

let listener;
let answered;
const scope = { console, URL, addEventListener: (_, given) => (listener = given), postMessage: (answer) => answered(answer) };
scope.self = scope;
vm.runInNewContext(fs.readFileSync(path.join(scripts, script), "utf8"), scope);

const ask = (type, data) =>
  new Promise((resolve) => {
    answered = resolve;
    listener({ data: { type, data } });
  });

(async () => {
  await ask(0, { config: index.config, docs: index.docs, options: { suggest: false } });
  const found = [];
  for (const query of queries) {
    const { data } = await ask(2, query);
    found.push(data.items.map((item) => item[0].location.split("#")[0]));
  }
  console.log(JSON.stringify(found));
})();
