// SPDX-License-Identifier: Apache-2.0
//
// draw.js PAGE.html > DRAWN.html - runs the script of a page that symtuner wrote, on a document
// that has only what the page uses, and prints what a browser would show.
"use strict";
const fs = require("fs"), vm = require("vm");

const text = fs.readFileSync(process.argv[2], "utf8");
const scripts = [...text.matchAll(/<script([^>]*)>([^]*?)<\/script>/g)];
const escape = t => t.replace(/[<>&"]/g, c => `&#${c.charCodeAt(0)};`);

class Element {
    constructor(namespaceURI, name) {
        Object.assign(this, {namespaceURI, name, attributes: [], children: []});
    }
    setAttribute(name, value) {
        this.attributes.push([name, String(value)]);
    }
    append(...children) {
        for (const child of children)
            if (typeof child !== "string" && !(child instanceof Element))
                throw new Error(`${child} is appended to <${this.name}>`);
        this.children.push(...children);
    }
    toString() {
        const attributes = this.attributes.map(([name, value]) => {
            if (/NaN|Infinity|undefined|null/.test(value))
                throw new Error(`<${this.name} ${name}="${value}">`);
            return ` ${name}="${escape(value)}"`;
        });
        const inside = this.children.map(
            child => child instanceof Element ? String(child) : escape(child));

        return `<${this.name}${attributes.join("")}>${inside.join("")}</${this.name}>`;
    }
}

const body = new Element("html", "body");
const known = {data: {textContent: scripts[0][2]}, space: new Element("svg", "svg")};
const document = {body, title: "", getElementById: id => known[id],
                  createElementNS: (space, name) => new Element(space, name)};

if (scripts.length !== 2 || !scripts[0][1].includes('type="application/json"'))
    throw new Error("not one script and its data");
vm.runInNewContext(scripts[1][2], {document});
process.stdout.write(
    `<html><head><title>${escape(document.title)}</title></head>\n${body}</html>\n`);
