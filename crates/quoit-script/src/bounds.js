// QuickJS can interrupt loops and calls of scripts and some built-in functions. The other built-in functions
// would block a thread for years if an object merely claims a huge length. This script replaces them with
// loops that can be interrupted; short inputs still go to the engine's own functions.
"use strict";
(function (global) {
    // Maximum number of elements for which the engine's own functions are used.
    var SHORT = 1 << 16;
    // Maximum number of character comparisons of a text search.
    var COMPARED_MAX = Math.pow(2, 30);
    // Combining marks on one letter: normalization takes time quadratic in their number.
    var MANY_MARKS = /\p{M}{100}/u;

    var apply = Reflect.apply;
    var define = Object.defineProperty;
    var isArray = Array.isArray;
    var isCallable = function (value) { return typeof value === "function"; };
    var exec = RegExp.prototype.exec;
    var min = Math.min;
    var max = Math.max;
    var trunc = Math.trunc;
    var LENGTH_MAX = Number.MAX_SAFE_INTEGER;

    // A proxy could report a different length each time it is asked.
    delete global.Proxy;

    function replace(owner, name, made) {
        define(owner, name, { value: made, writable: true, enumerable: false, configurable: true });
    }

    function lengthOf(list) {
        var length = trunc(+list.length);
        return length > 0 ? min(length, LENGTH_MAX) : 0;
    }

    // Converts an argument to an index; negative ones count from the end of the list.
    function placeOf(given, length, otherwise) {
        if (given === undefined) {
            return otherwise;
        }
        var place = trunc(+given) || 0;
        return place < 0 ? max(length + place, 0) : min(place, length);
    }

    function move(list, from, to) {
        if (from in list) {
            list[to] = list[from];
        } else {
            delete list[to];
        }
    }

    // Copies a part of a list to a new list.
    function part(list, from, end) {
        var made = [];
        for (var at = from; at < end; at++) {
            if (at in list) {
                made[at - from] = list[at];
            }
        }
        made.length = max(end - from, 0);
        return made;
    }

    // Replaces some elements of a list with others.
    function exchange(list, from, count, added) {
        var length = lengthOf(list);
        var shift = added.length - count;
        var at;
        if (shift < 0) {
            for (at = from + count; at < length; at++) {
                move(list, at, at + shift);
            }
            for (at = length; at > length + shift; at--) {
                delete list[at - 1];
            }
        } else if (shift > 0) {
            for (at = length; at > from + count; at--) {
                move(list, at - 1, at - 1 + shift);
            }
        }
        for (at = 0; at < added.length; at++) {
            list[from + at] = added[at];
        }
        list.length = length + shift;
    }

    function copied(list) {
        var made = [];
        var length = lengthOf(list);
        for (var at = 0; at < length; at++) {
            made[at] = list[at];
        }
        return made;
    }

    function isAfter(one, other, comparison) {
        if (one === undefined || other === undefined) {
            return one === undefined && other !== undefined;
        }
        return comparison === undefined ? String(one) > String(other) : comparison(one, other) > 0;
    }

    // Bottom-up merge sort, which is stable.
    function sorted(list, comparison) {
        if (comparison !== undefined && !isCallable(comparison)) {
            throw new TypeError("not a function");
        }
        var from = list;
        var to = [];
        for (var width = 1; width < list.length; width *= 2) {
            for (var start = 0; start < list.length; start += 2 * width) {
                var middle = min(start + width, list.length);
                var end = min(start + 2 * width, list.length);
                for (var at = start, left = start, right = middle; at < end; at++) {
                    var takesRight = left >= middle
                        || right < end && isAfter(from[left], from[right], comparison);
                    to[at] = takesRight ? from[right++] : from[left++];
                }
            }
            var other = from;
            from = to;
            to = other;
        }
        return from;
    }

    function flatten(made, list, depth) {
        var length = lengthOf(list);
        for (var at = 0; at < length; at++) {
            if (at in list) {
                if (depth > 0 && isArray(list[at])) {
                    flatten(made, list[at], depth - 1);
                } else {
                    made[made.length] = list[at];
                }
            }
        }
        return made;
    }

    function joined(list, separator, shown) {
        var between = separator === undefined ? "," : String(separator);
        var length = lengthOf(list);
        var text = "";
        for (var at = 0; at < length; at++) {
            var element = list[at];
            var isEmpty = element === undefined || element === null;
            text += (at > 0 ? between : "") + (isEmpty ? "" : shown(element));
        }
        return text;
    }

    var lists = {
        concat: function () {
            var made = [];
            var length = 0;
            for (var item = -1; item < arguments.length; item++) {
                var list = item < 0 ? this : arguments[item];
                var isObject = list !== null && typeof list === "object";
                var spreads = isObject ? list[Symbol.isConcatSpreadable] : false;
                if (spreads === undefined ? isArray(list) : spreads) {
                    var count = lengthOf(list);
                    for (var at = 0; at < count; at++) {
                        if (at in list) {
                            made[length + at] = list[at];
                        }
                    }
                    length += count;
                } else {
                    made[length++] = list;
                }
            }
            made.length = length;
            return made;
        },
        copyWithin: function (target, start, end) {
            var length = lengthOf(this);
            var to = placeOf(target, length, 0);
            var from = placeOf(start, length, 0);
            var count = min(placeOf(end, length, length) - from, length - to);
            for (var step = 0; step < count; step++) {
                var offset = from < to ? count - 1 - step : step;
                move(this, from + offset, to + offset);
            }
            return this;
        },
        fill: function (value, start, end) {
            var length = lengthOf(this);
            var last = placeOf(end, length, length);
            for (var at = placeOf(start, length, 0); at < last; at++) {
                this[at] = value;
            }
            return this;
        },
        flat: function (depth) {
            return flatten([], this, depth === undefined ? 1 : +depth);
        },
        flatMap: function (made, receiver) {
            return flatten([], copied(this).map(made, receiver), 1);
        },
        join: function (separator) {
            return joined(this, separator, String);
        },
        reverse: function () {
            var length = lengthOf(this);
            for (var at = 0; at < trunc(length / 2); at++) {
                var other = length - 1 - at;
                var has = at in this;
                var element = this[at];
                move(this, other, at);
                if (has) {
                    this[other] = element;
                } else {
                    delete this[other];
                }
            }
            return this;
        },
        shift: function () {
            var first = this[0];
            if (lengthOf(this) > 0) {
                exchange(this, 0, 1, []);
            } else {
                this.length = 0;
            }
            return first;
        },
        slice: function (start, end) {
            var length = lengthOf(this);
            return part(this, placeOf(start, length, 0), placeOf(end, length, length));
        },
        sort: function (comparison) {
            var length = lengthOf(this);
            var found = [];
            for (var at = 0; at < length; at++) {
                if (at in this) {
                    found[found.length] = this[at];
                }
            }
            found = sorted(found, comparison);
            for (at = 0; at < length; at++) {
                if (at < found.length) {
                    this[at] = found[at];
                } else {
                    delete this[at];
                }
            }
            return this;
        },
        splice: function (start, count) {
            var length = lengthOf(this);
            var from = placeOf(start, length, 0);
            var most = arguments.length === 0 ? 0 : length - from;
            var taken = arguments.length < 2 ? most : min(max(trunc(+count) || 0, 0), most);
            var removed = part(this, from, from + taken);
            exchange(this, from, taken, part(arguments, 2, arguments.length));
            return removed;
        },
        toLocaleString: function () {
            return joined(this, ",", function (element) { return String(element.toLocaleString()); });
        },
        toReversed: function () {
            return lists.reverse.call(copied(this));
        },
        toSorted: function (comparison) {
            return sorted(copied(this), comparison);
        },
        toSpliced: function () {
            var made = copied(this);
            apply(lists.splice, made, arguments);
            return made;
        },
        unshift: function () {
            exchange(this, 0, 0, part(arguments, 0, arguments.length));
            return lengthOf(this);
        },
        with: function (place, value) {
            var made = copied(this);
            var at = trunc(+place) || 0;
            at = at < 0 ? made.length + at : at;
            if (at < 0 || at >= made.length) {
                throw new RangeError("out of bound");
            }
            made[at] = value;
            return made;
        }
    };
    // These functions take several lists, so that the length of the first one does not decide.
    var ANY_LENGTH = ["concat", "flat", "flatMap"];

    Object.keys(lists).forEach(function (name) {
        var short = Array.prototype[name];
        var long = lists[name];
        if (ANY_LENGTH.indexOf(name) >= 0) {
            return replace(Array.prototype, name, long);
        }
        replace(Array.prototype, name, function () {
            return apply(isArray(this) && this.length <= SHORT ? short : long, this, arguments);
        });
    });

    // Makes iteration a call for each element; the engine's own function is inlined and not interruptible.
    var elements = Object.getPrototypeOf([].values());
    var next = elements.next;
    replace(elements, "next", function () { return apply(next, this, []); });

    function checkSearch(text, wanted) {
        if ((text.length - wanted.length) * wanted.length > COMPARED_MAX) {
            throw new RangeError("the texts are too long to look for one in the other");
        }
    }

    ["indexOf", "lastIndexOf", "includes"].forEach(function (name) {
        var own = String.prototype[name];
        replace(String.prototype, name, function (wanted, place) {
            if (typeof this !== "string" || typeof wanted !== "string") {
                // Throws the engine's error for invalid arguments; the empty text keeps this short.
                apply(own, "", [wanted]);
                apply(own, this, [""]);
            }
            var text = String(this);
            var looked = String(wanted);
            checkSearch(text, looked);
            return apply(own, text, arguments.length < 2 ? [looked] : [looked, place]);
        });
    });

    ["replace", "replaceAll", "split"].forEach(function (name) {
        var own = String.prototype[name];
        // replaceAll has no symbol of its own: it uses that of replace, with a flag of the expression.
        var symbol = name === "split" ? Symbol.split : Symbol.replace;
        replace(String.prototype, name, function (wanted, other) {
            if (this === undefined || this === null || wanted === undefined) {
                return apply(own, this, arguments);
            }
            var way = wanted !== null && typeof wanted === "object" ? wanted[symbol] : undefined;
            if (way !== undefined && way !== null) {
                if (name === "replaceAll" && String(wanted.flags).indexOf("g") < 0) {
                    throw new TypeError("regexp must have the 'g' flag");
                }
                return apply(way, wanted, [this, other]);
            }
            var text = String(this);
            var looked = String(wanted);
            checkSearch(text, looked);
            return apply(own, text, arguments.length < 2 ? [looked] : [looked, other]);
        });
    });

    // Joins texts and the values between them, as template tags receive them.
    replace(String, "raw", function (parts) {
        var raw = parts.raw;
        var length = lengthOf(raw);
        var text = "";
        for (var at = 0; at < length; at++) {
            var isBefore = at + 1 < min(length, arguments.length);
            text += String(raw[at]) + (isBefore ? String(arguments[at + 1]) : "");
        }
        return text;
    });

    function checkMarks(text) {
        if (apply(exec, MANY_MARKS, [text]) !== null) {
            throw new RangeError("the text has too many marks on one letter");
        }
    }

    ["normalize", "localeCompare"].forEach(function (name) {
        var own = String.prototype[name];
        replace(String.prototype, name, function (given) {
            if (this === undefined || this === null) {
                return apply(own, this, arguments);
            }
            var text = String(this);
            checkMarks(text);
            if (name === "localeCompare") {
                given = String(given);
                checkMarks(given);
            }
            return apply(own, text, given === undefined ? [] : [given]);
        });
    });

    var stringify = JSON.stringify;
    replace(JSON, "stringify", function (value, chosen, space) {
        if (isArray(chosen) && chosen.length > SHORT) {
            throw new RangeError("too many names are chosen");
        }
        return stringify(value, chosen, space);
    });
}(globalThis));
