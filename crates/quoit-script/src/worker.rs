//! The thread of a session: it owns the runtime, compiles the functions, and calls them.

use crate::limits::ScriptLimits;
use crate::shares::{JobShare, SessionMemory};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_heap::{CountedAllocator, MemoryBudget};
use quoit_mapreduce::{
    Datum, FoundObject, Input, NotUtf8, ScriptCall, ScriptFault, ScriptText, append_json,
    print_term,
};
use quoit_model::etf::Term;
use rquickjs::context::EvalOptions;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Runtime, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// Maximum stack of scripts in bytes.
pub(crate) const STACK_BYTES_MAX: usize = 512 << 10;
/// Memory in bytes of each value in an output, in addition to the output's text.
const VALUE_BYTES: usize = 80;
/// Maximum number of characters of an exception's text.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// Scripts that run before those of a job, in this order.
const PRELUDES: [&str; 2] = [crate::BOUNDS, include_str!("prelude.js")];

/// A batch of calls.
pub(crate) struct CallBatch {
    pub(crate) phase: usize,
    pub(crate) call: ScriptCall,
}

/// Result of a batch of calls.
pub(crate) type Called = Result<Vec<Bytes>, ScriptFault>;

/// Clock of a session, which ends calls that exceed their time.
pub(crate) struct SessionClock {
    share: Arc<JobShare>,
    state: Mutex<WatchState>,
    /// Memory of the outputs of the last batch. It counts until the next batch begins, because the caller
    /// still holds the outputs.
    outputs: Mutex<SessionMemory>,
    is_ended: AtomicBool,
}

struct WatchState {
    /// Time at which the present call is ended.
    deadline: Instant,
    was_interrupted: bool,
}

impl SessionClock {
    pub(crate) fn new(share: Arc<JobShare>) -> Self {
        let deadline = Instant::now() + share.limits().call_time_max;
        let state = WatchState { deadline, was_interrupted: false };
        let outputs = Mutex::new(SessionMemory::new(Arc::clone(&share)));
        Self { share, outputs, state: Mutex::new(state), is_ended: AtomicBool::new(false) }
    }

    /// Counts the memory that an output takes once it is parsed, until the next batch. Returns false if the
    /// memory limit is exceeded.
    fn count_output(&self, json: &str) -> bool {
        let bytes = json.len() + value_count(json.as_bytes()) * VALUE_BYTES;
        self.outputs.lock().take(bytes)
    }

    /// Ends the present call and refuses further ones.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// True if the present call must end. QuickJS calls this periodically.
    fn is_over(&self) -> bool {
        let mut state = self.state.lock();
        let is_over = self.is_ended.load(Ordering::Relaxed) || Instant::now() >= state.deadline;
        state.was_interrupted |= is_over;
        is_over
    }

    /// Runs a call within the time limits, and counts its time against that of the job.
    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        {
            let mut state = self.state.lock();
            let limits = self.share.limits();
            state.deadline = begun + limits.call_time_max.min(self.share.time_left());
            state.was_interrupted = false;
        }
        let done = call();
        self.share.use_time(begun.elapsed());
        done
    }

    /// Reason for which the last call was ended; `None` if it was not.
    fn interruption(&self) -> Option<String> {
        let state = self.state.lock();
        if !state.was_interrupted {
            return None;
        }
        let ScriptLimits { call_time_max, job_time_max, .. } = *self.share.limits();
        Some(if self.is_ended.load(Ordering::Relaxed) {
            "the job was stopped".into()
        } else if self.share.time_left().is_zero() {
            format!(
                "the scripts of the job took longer than {} ms (mapreduce.javascript.job_timeout)",
                job_time_max.as_millis()
            )
        } else {
            format!(
                "the script took longer than {} ms (mapreduce.javascript.call_timeout)",
                call_time_max.as_millis()
            )
        })
    }
}

/// Runs a session until its job drops the channels. The first answer tells whether the sources compiled.
pub(crate) fn run(
    watch: &Arc<SessionClock>,
    scripts: &[(usize, ScriptText, Term)],
    orders: &Receiver<CallBatch>,
    answers: &Sender<Called>,
) {
    let phase = scripts.first().map_or(0, |(phase, ..)| *phase);
    let refuse = |message: String| {
        // The send fails if the job has ended.
        let _ = answers.send(Err(fault(phase, message)));
    };
    let Some(memory) = SessionMemory::for_runtime(&watch.share) else {
        let limit = watch.share.memory_limit();
        return refuse(format!("no runtime for scripts could be made: out of memory ({limit})"));
    };
    let runtime = match Runtime::new_with_alloc(CountedAllocator::new(memory)) {
        Ok(runtime) => runtime,
        Err(error) => return refuse(format!("no runtime for scripts could be made: {error}")),
    };
    runtime.set_max_stack_size(STACK_BYTES_MAX);
    let of_engine = Arc::clone(watch);
    runtime.set_interrupt_handler(Some(Box::new(move || of_engine.is_over())));
    let context = match Context::full(&runtime) {
        Ok(context) => context,
        Err(error) => return refuse(format!("no context for scripts could be made: {error}")),
    };
    context.with(|ctx| {
        let functions = match compile_all(watch, &ctx, scripts) {
            Ok(functions) => functions,
            Err(fault) => {
                let _ = answers.send(Err(fault));
                return;
            }
        };
        if answers.send(Ok(Vec::new())).is_err() {
            return;
        }
        while let Ok(CallBatch { phase, call }) = orders.recv() {
            let function = functions.iter().find(|function| function.phase == phase);
            let called = match function {
                Some(function) => function.call(watch, &ctx, call),
                None => Err(fault(phase, "the phase has no script".into())),
            };
            if answers.send(called).is_err() {
                return;
            }
        }
    });
}

fn fault(phase: usize, message: String) -> ScriptFault {
    ScriptFault { phase, message, stack: String::new(), input: String::new() }
}

/// A compiled function with the argument of its phase.
struct Compiled<'js> {
    phase: usize,
    function: Function<'js>,
    argument: Value<'js>,
}

fn compile_all<'js>(
    watch: &SessionClock,
    ctx: &Ctx<'js>,
    scripts: &[(usize, ScriptText, Term)],
) -> Result<Vec<Compiled<'js>>, ScriptFault> {
    let first_phase = scripts.first().map_or(0, |(phase, ..)| *phase);
    for prelude in PRELUDES {
        let prepared = watch.timed(|| ctx.eval::<(), _>(prelude)).catch(ctx);
        prepared.map_err(|error| describe(watch, first_phase, &error))?;
    }
    let compile = |(phase, text, argument): &(usize, ScriptText, Term)| {
        let source = match text {
            ScriptText::Named(name) if is_name(name) => name.clone(),
            ScriptText::Named(name) => {
                return Err(fault(*phase, format!("there is no built-in function {name:?}")));
            }
            ScriptText::Source(source) => format!("({source}\n)"),
        };
        let mut options = EvalOptions::default();
        // Existing scripts for Riak may depend on sloppy mode.
        options.strict = false;
        let evaluated = watch.timed(|| ctx.eval_with_options::<Value<'js>, _>(source, options));
        let value = evaluated.catch(ctx);
        let value = value.map_err(|error| describe(watch, *phase, &error))?;
        let Some(function) = value.into_function() else {
            return Err(fault(
                *phase,
                match text {
                    ScriptText::Named(name) => format!("there is no built-in function {name}"),
                    ScriptText::Source(_) => "the source of the phase is not a function".into(),
                },
            ));
        };
        let argument = json_of(*phase, argument).and_then(|json| parse(watch, ctx, *phase, &json));
        Ok(Compiled { phase: *phase, function, argument: argument? })
    };
    scripts.iter().map(compile).collect()
}

/// True if a text has the form of a built-in function's name: `Riak.` and identifiers separated by dots.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    name.starts_with("Riak.") && name.split('.').all(is_part)
}

fn json_of(phase: usize, term: &Term) -> Result<Vec<u8>, ScriptFault> {
    let mut json = Vec::new();
    match append_json(&mut json, &Datum::Term(term.clone())) {
        Ok(()) => Ok(json),
        Err(NotUtf8) => Err(fault(phase, NotUtf8.to_string())),
    }
}

fn parse<'js>(
    watch: &SessionClock,
    ctx: &Ctx<'js>,
    phase: usize,
    json: &[u8],
) -> Result<Value<'js>, ScriptFault> {
    let parsed = watch.timed(|| ctx.json_parse(json)).catch(ctx);
    parsed.map_err(|error| describe(watch, phase, &error))
}

impl<'js> Compiled<'js> {
    /// Runs a batch of calls. Their outputs together have one size limit.
    fn call(&self, watch: &SessionClock, ctx: &Ctx<'js>, call: ScriptCall) -> Called {
        watch.outputs.lock().give_all_back();
        match call {
            ScriptCall::Reduce(values) => {
                let values = parse(watch, ctx, self.phase, &values)?;
                let made = watch.timed(|| self.function.call((values, self.argument.clone())));
                Ok(vec![self.list(watch, ctx, made, 0)?])
            }
            ScriptCall::Map(objects) => {
                let mut lists = Vec::new();
                let mut output_bytes = 0;
                for object in objects {
                    let named = match &object {
                        Ok(found) => found.input.to_term(),
                        Err(input) => input.to_term(),
                    };
                    let list = self
                        .map_one(watch, ctx, object, output_bytes)
                        .map_err(|fault| ScriptFault { input: print_term(&named), ..fault })?;
                    output_bytes += list.len();
                    lists.push(list);
                }
                Ok(lists)
            }
        }
    }

    fn map_one(
        &self,
        watch: &SessionClock,
        ctx: &Ctx<'js>,
        object: Result<FoundObject, Input>,
        output_bytes: usize,
    ) -> Result<Bytes, ScriptFault> {
        let not_text = |NotUtf8: NotUtf8| {
            fault(self.phase, "the object is not UTF-8, which scripts need".into())
        };
        let (mut json, input) = (
            Vec::new(),
            match object {
                Ok(found) => {
                    let input = found.input.clone();
                    (Some(found), input)
                }
                Err(input) => (None, input),
            },
        );
        let (found, input) = input;
        match found {
            Some(found) => found.append_json(&mut json).map_err(not_text)?,
            None => append_json(&mut json, &Datum::Term(input.not_found())).map_err(not_text)?,
        }
        let object = parse(watch, ctx, self.phase, &json)?;
        let key_data = match &input.key_data {
            Some(data) => parse(watch, ctx, self.phase, &json_of(self.phase, data)?)?,
            None => Value::new_undefined(ctx.clone()),
        };
        let arguments = (object, key_data, self.argument.clone());
        let made = watch.timed(|| self.function.call(arguments));
        self.list(watch, ctx, made, output_bytes)
    }

    /// Converts the list that a call returned to JSON.
    fn list(
        &self,
        watch: &SessionClock,
        ctx: &Ctx<'js>,
        made: rquickjs::Result<Value<'js>>,
        output_bytes: usize,
    ) -> Result<Bytes, ScriptFault> {
        let failed = |error: CaughtError<'js>| describe(watch, self.phase, &error);
        let made = made.catch(ctx).map_err(failed)?;
        if !made.is_array() {
            let kind = made.type_name();
            return Err(fault(self.phase, format!("the script returned no list, but {kind}")));
        }
        let text = watch.timed(|| ctx.json_stringify(made)).catch(ctx).map_err(failed)?;
        let text = text.map(|text| text.to_string()).transpose().catch(ctx).map_err(failed)?;
        let text = text.unwrap_or_default();
        let limit = watch.share.limits().output_bytes_max;
        if output_bytes + text.len() > limit {
            return Err(fault(
                self.phase,
                format!(
                    "the outputs have more than {limit} bytes (mapreduce.javascript.maximum_output)"
                ),
            ));
        }
        if !watch.count_output(&text) {
            let limit = watch.share.memory_limit();
            return Err(fault(self.phase, format!("out of memory for the outputs ({limit})")));
        }
        Ok(text.into())
    }
}

/// Approximate number of values in a JSON text.
fn value_count(json: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// An exception of a script.
pub(crate) struct ThrownError<'a> {
    /// The property `name`.
    pub(crate) name: &'a str,
    /// The property `message`.
    pub(crate) message: &'a str,
}

impl ThrownError<'_> {
    /// Text of the exception. If QuickJS lacks the memory for the message of an internal error, it reports
    /// that the message is invalid, or leaves it empty; in both cases the text is "out of memory". A script
    /// that throws such an error itself gets the same text.
    pub(crate) fn text(&self) -> String {
        let Self { name, message } = self;
        match (*name, *message) {
            ("InternalError" | "", "" | "Invalid error message") => {
                "InternalError: out of memory".to_owned()
            }
            _ => format!("{name}: {message}"),
        }
    }
}

/// Describes the error of a script.
fn describe(watch: &SessionClock, phase: usize, error: &CaughtError<'_>) -> ScriptFault {
    if let Some(message) = watch.interruption() {
        return fault(phase, message);
    }
    let (message, stack) = match error {
        CaughtError::Exception(exception) => {
            let name = exception.as_object().get::<_, String>("name").unwrap_or_default();
            let message = exception.message().unwrap_or_default();
            let thrown = ThrownError { name: &name, message: &message };
            (thrown.text(), exception.stack().unwrap_or_default())
        }
        // There was no memory left for an exception object.
        CaughtError::Value(value) if value.is_null() => {
            ("InternalError: out of memory".to_owned(), String::new())
        }
        CaughtError::Value(value) => {
            let text = value.as_string().and_then(|text| text.to_string().ok());
            let text =
                text.unwrap_or_else(|| format!("a value that is no Error: {}", value.type_name()));
            (format!("thrown: {text}"), String::new())
        }
        CaughtError::Error(error) => (error.to_string(), String::new()),
    };
    // Reading the name and message can run getters of the script, which the clock may have ended.
    if let Some(message) = watch.interruption() {
        return fault(phase, message);
    }
    let cut = |text: String| text.chars().take(MESSAGE_CHARS_MAX).collect::<String>();
    let mut message = cut(message);
    if message.contains("out of memory") {
        message.push_str(&format!(" ({})", watch.share.memory_limit()));
    }
    ScriptFault { phase, message, stack: cut(stack), input: String::new() }
}
