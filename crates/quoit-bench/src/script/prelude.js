// What a script does depends on its text, its arguments and the worker's random stream alone: there is no
// clock, and nothing that one worker writes and another reads.
"use strict";
delete globalThis.Date;
delete globalThis.performance;
delete globalThis.WeakRef;
delete globalThis.FinalizationRegistry;
(function () {
    const frozen = new Set();
    function freeze(object) {
        const isObject = object !== null && (typeof object === "object" || typeof object === "function");
        if (!isObject || frozen.has(object)) {
            return;
        }
        frozen.add(object);
        for (const name of Reflect.ownKeys(object)) {
            const property = Reflect.getOwnPropertyDescriptor(object, name);
            [property.value, property.get, property.set].forEach(freeze);
        }
        freeze(Reflect.getPrototypeOf(object));
        Object.freeze(object);
    }
    const fromCodes = String.fromCharCode;
    freeze(globalThis);

    // Bytes as a text: Latin-1. A call takes so many arguments at most.
    return function (bytes) {
        const parts = [];
        for (let at = 0; at < bytes.length; at += 8192) {
            parts.push(fromCodes(...bytes.subarray(at, at + 8192)));
        }
        return parts.join("");
    };
})();
