// Built-in functions that jobs can name, and further globals that scripts can rely on.
"use strict";
var Riak = (function () {
    function isMissing(value) {
        return value !== null && typeof value === "object" && value.not_found !== undefined;
    }

    function found(values) {
        return values.filter(function (value) { return !isMissing(value); });
    }

    // Returns the values of an object; the marker of a missing object is kept.
    function mapValues(value) {
        if (isMissing(value)) {
            return [value];
        }
        return value.values.map(function (sibling) { return sibling.data; });
    }

    function mapValuesJson(value) {
        if (isMissing(value)) {
            return [value];
        }
        return mapValues(value).map(function (data) { return JSON.parse(data); });
    }

    // Returns the objects whose fields have the values given in the argument.
    function mapByFields(value, keyData, fields) {
        if (isMissing(value)) {
            return [];
        }
        return mapValuesJson(value).filter(function (object) {
            return Object.keys(fields).every(function (name) { return object[name] === fields[name]; });
        });
    }

    function reduceSum(values) {
        return [found(values).reduce(function (sum, value) { return sum + value; }, 0)];
    }

    function best(values, isBetter) {
        var numbers = found(values);
        if (numbers.length === 0) {
            return [];
        }
        return [numbers.reduce(function (one, other) { return isBetter(other, one) ? other : one; })];
    }

    function reduceMin(values) {
        return best(values, function (one, other) { return one < other; });
    }

    function reduceMax(values) {
        return best(values, function (one, other) { return one > other; });
    }

    // Sorts as text, or with the comparison function whose source is the argument.
    function reduceSort(values, comparison) {
        if (typeof comparison === "string") {
            return values.sort((0, eval)("(" + comparison + "\n)"));
        }
        return values.sort();
    }

    function reduceNumericSort(values) {
        return values.sort(function (one, other) { return one - other; });
    }

    function reduceLimit(values, count) {
        return values.slice(0, count);
    }

    // Returns the elements from one index to another; all of them if the first index is beyond the end.
    function reduceSlice(values, places) {
        var end = Math.min(places[1], values.length);
        return places[0] >= values.length ? values : values.slice(places[0], end);
    }

    return Object.freeze({
        mapValues: mapValues,
        mapValuesJson: mapValuesJson,
        mapByFields: mapByFields,
        reduceSum: reduceSum,
        reduceMin: reduceMin,
        reduceMax: reduceMax,
        reduceSort: reduceSort,
        reduceNumericSort: reduceNumericSort,
        reduceLimit: reduceLimit,
        reduceSlice: reduceSlice,
        filterNotFound: found
    });
}());

// Riak's scripts can write to its log. Here the call does nothing.
function ejsLog() {}
