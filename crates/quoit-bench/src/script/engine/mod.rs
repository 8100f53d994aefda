//! The QuickJS engine on one thread of the load generator: its limits, and the functions that are added.
//!
//! Workers never leave their thread, and neither does an engine. So each thread has one engine for each
//! script, which holds the functions that the script has made for the workers of the thread. A
//! [`FunctionHandle`] refers to one of them.

mod functions;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::time::{Duration, Instant};

use quoit_script::BOUNDS;
use rquickjs::context::EvalOptions;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Function, Persistent, Runtime, TypedArray, Value,
};

use self::functions::add_functions;
use super::ScriptFault;
use super::scripts::ScriptProgram;
use crate::random::Random;
use crate::worker_place::WorkerPlace;

/// Memory limit of a script, for all workers of one thread, in bytes.
const MEMORY_BYTES_MAX: usize = 256 << 20;

/// Stack limit of a script, in bytes. It is a part of the thread's stack of 2 MiB.
const STACK_BYTES_MAX: usize = 256 << 10;

/// Number of times that the engine may call the interrupt handler during one call. The engine calls it
/// after every ten thousand loops and calls.
const STEPS_MAX: u32 = 1000;

/// Time limit of one call. It is for built-in functions; a loop in a script reaches [`STEPS_MAX`] first.
const CALL_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum length of a key or value, in bytes.
pub(super) const SIZE_BYTES_MAX: usize = 64 << 20;

/// Maximum length of an exception's text, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// Code that runs before a script. It removes clocks and everything that workers could share.
const PRELUDE: &str = include_str!("../prelude.js");

/// A reference to a function that a script has made for a worker. It is only valid on the thread that made
/// it.
#[derive(Debug)]
pub(super) struct FunctionHandle {
    program: usize,
    number: u64,
}

/// The argument of a call.
pub(super) enum Argument {
    None,
    Boolean(bool),
}

/// A value that a script has returned.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScriptReturn {
    /// The value `null` or `undefined`.
    Nothing,
    Integer(i64),
    /// A number that is not an integer of at most 2^53.
    Number(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// The fields of an object that is not a list, except fields that are functions.
    Fields(Vec<(String, ScriptReturn)>),
    /// Any other value, with the name of its type.
    Other(&'static str),
}

impl ScriptReturn {
    /// A description of the value's kind.
    pub(super) fn kind_text(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Integer(_) => "an integer".to_owned(),
            Self::Number(number) => format!("the number {number}"),
            Self::Text(_) => "a text".to_owned(),
            Self::Bytes(_) => "bytes".to_owned(),
            Self::Fields(_) => "an object".to_owned(),
            Self::Other(type_name) => format!("a value of the type {type_name}"),
        }
    }
}

/// The worker whose function is being called on this thread.
struct Caller {
    random: Random,
    place: WorkerPlace,
}

/// The limits of the current call.
#[derive(Clone, Copy)]
struct CallLimits {
    steps_left: u32,
    give_up_at: Option<Instant>,
    is_cut: bool,
}

/// A script on this thread. The fields are ordered so that functions are dropped before their runtime.
struct HostedScript {
    functions: HashMap<u64, Persistent<Function<'static>>>,
    factory: Persistent<Function<'static>>,
    /// Converts bytes to a text with one character for each byte, because the engine's crate has no safe
    /// access to the bytes.
    to_latin1: Persistent<Function<'static>>,
    context: Context,
    _runtime: Runtime,
}

#[derive(Default)]
struct ThreadScripts {
    scripts: HashMap<usize, HostedScript>,
    next_number: u64,
}

thread_local! {
    static HOST: RefCell<ThreadScripts> = RefCell::default();
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
    static CALL_LIMITS: Cell<CallLimits> =
        const { Cell::new(CallLimits { steps_left: 0, give_up_at: None, is_cut: false }) };
}

impl FunctionHandle {
    /// Makes a function for a worker, by calling the program's function.
    pub(super) fn make(
        program: &ScriptProgram,
        random: &mut Random,
        place: WorkerPlace,
    ) -> Result<Self, ScriptFault> {
        HOST.with_borrow_mut(|host| {
            host.next_number += 1;
            let number = host.next_number;
            let script = match host.scripts.entry(program.number) {
                Entry::Occupied(script) => script.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(HostedScript::new(program, random, place)?),
            };
            let made = script.make(program, random, place)?;
            script.functions.insert(number, made);
            Ok(Self { program: program.number, number })
        })
    }

    /// Calls the function.
    pub(super) fn call(
        &self,
        path: &Path,
        random: &mut Random,
        place: WorkerPlace,
        argument: Argument,
    ) -> Result<ScriptReturn, ScriptFault> {
        HOST.with_borrow(|host| {
            let script = host.scripts.get(&self.program);
            let function = script.and_then(|script| script.functions.get(&self.number));
            let (Some(script), Some(function)) = (script, function) else {
                return Err(ScriptFault::of_call(
                    path,
                    "the function was made elsewhere".to_owned(),
                ));
            };
            script.context.with(|ctx| {
                let gave = watched(random, place, || {
                    let function = function.clone().restore(&ctx)?;
                    let gave: Value<'_> = match argument {
                        Argument::None => function.call(()),
                        Argument::Boolean(flag) => function.call((flag,)),
                    }?;
                    given(gave, &script.to_latin1.clone().restore(&ctx)?)
                });
                gave.catch(&ctx).map_err(|error| fault_of(path, &error))
            })
        })
    }
}

/// Drops the engine of a program on this thread.
pub(super) fn forget(program: &ScriptProgram) {
    HOST.with_borrow_mut(|host| drop(host.scripts.remove(&program.number)));
}

impl Drop for FunctionHandle {
    fn drop(&mut self) {
        // When the thread ends, the engines may already have been dropped.
        let _ = HOST.try_with(|host| {
            if let Ok(mut host) = host.try_borrow_mut()
                && let Some(script) = host.scripts.get_mut(&self.program)
            {
                script.functions.remove(&self.number);
            }
        });
    }
}

impl HostedScript {
    fn new(
        program: &ScriptProgram,
        random: &mut Random,
        place: WorkerPlace,
    ) -> Result<Self, ScriptFault> {
        let path = &program.path;
        let unmade = |error: rquickjs::Error| {
            ScriptFault::of_call(path, format!("no runtime for the script could be made: {error}"))
        };
        let runtime = Runtime::new().map_err(unmade)?;
        runtime.set_memory_limit(MEMORY_BYTES_MAX);
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        runtime.set_interrupt_handler(Some(Box::new(is_over)));
        let context = Context::full(&runtime).map_err(unmade)?;
        let (factory, to_latin1) = context.with(|ctx| {
            let compiled = watched(random, place, || {
                ctx.eval::<(), _>(BOUNDS)?;
                add_functions(&ctx)?;
                let to_latin1: Function<'_> = ctx.eval(PRELUDE)?;
                let mut options = EvalOptions::default();
                options.filename = Some(path.display().to_string());
                let factory: Function<'_> =
                    ctx.eval_with_options(program.text.as_str(), options)?;
                Ok((Persistent::save(&ctx, factory), Persistent::save(&ctx, to_latin1)))
            });
            compiled.catch(&ctx).map_err(|error| fault_of(path, &error))
        })?;
        Ok(Self { functions: HashMap::new(), factory, to_latin1, context, _runtime: runtime })
    }

    /// Evaluates the script anew for a worker, so that workers share no variables, and calls its function.
    fn make(
        &self,
        program: &ScriptProgram,
        random: &mut Random,
        place: WorkerPlace,
    ) -> Result<Persistent<Function<'static>>, ScriptFault> {
        let (path, name) = (&program.path, &program.function);
        self.context.with(|ctx| {
            let gave = watched(random, place, || {
                let factory = self.factory.clone().restore(&ctx)?;
                let arguments: Value<'_> = ctx.json_parse(program.arguments.as_str())?;
                factory.call::<_, Value<'_>>((place.number, arguments))
            });
            let gave = gave.catch(&ctx).map_err(|error| fault_of(path, &error))?;
            let type_name = gave.type_name();
            let function = gave.into_function().ok_or_else(|| {
                let text = format!(
                    "{name} gave a value of the type {type_name}: it is called once for each worker, and \
                     gives a function such as () => random(100)"
                );
                ScriptFault::of_call(path, text)
            })?;
            Ok(Persistent::save(&ctx, function))
        })
    }
}

/// Performs a call that draws from `random`, within the limits. Afterwards `random` is in the state in
/// which the call left it.
fn watched<T>(random: &mut Random, place: WorkerPlace, call: impl FnOnce() -> T) -> T {
    let give_up_at = Some(Instant::now() + CALL_TIME_MAX);
    CALL_LIMITS.set(CallLimits { steps_left: STEPS_MAX, give_up_at, is_cut: false });
    CALLER.set(Some(Caller { random: random.clone(), place }));
    let called = call();
    if let Some(caller) = CALLER.take() {
        *random = caller.random;
    }
    called
}

/// True if the current call must end.
fn is_over() -> bool {
    let mut watch = CALL_LIMITS.get();
    watch.steps_left = watch.steps_left.saturating_sub(1);
    watch.is_cut |=
        watch.steps_left == 0 || watch.give_up_at.is_some_and(|limit| Instant::now() > limit);
    CALL_LIMITS.set(watch);
    watch.is_cut
}

/// Converts a returned value. The fields of an object are converted, but nothing deeper.
fn given<'js>(value: Value<'js>, to_latin1: &Function<'js>) -> rquickjs::Result<ScriptReturn> {
    if let Some(object) = value.as_object()
        && value.is_object()
        && !value.is_array()
        && !value.is_function()
        && TypedArray::<u8>::from_value(value.clone()).is_err()
    {
        let fields = object.props::<String, Value<'_>>().map(|property| {
            let (name, value) = property?;
            Ok((name, plain(value, to_latin1)?))
        });
        return fields.collect::<rquickjs::Result<_>>().map(ScriptReturn::Fields);
    }
    plain(value, to_latin1)
}

fn plain<'js>(value: Value<'js>, to_latin1: &Function<'js>) -> rquickjs::Result<ScriptReturn> {
    if value.is_null() || value.is_undefined() {
        return Ok(ScriptReturn::Nothing);
    }
    if let Some(number) = value.as_number() {
        let is_whole = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
        return Ok(if is_whole {
            ScriptReturn::Integer(quoit_number::whole_i64(number))
        } else {
            ScriptReturn::Number(number)
        });
    }
    if let Some(text) = value.as_string() {
        return text.to_string().map(ScriptReturn::Text);
    }
    let type_name = value.type_name();
    if let Some(number) = value.as_big_int() {
        return number.clone().to_i64().map(ScriptReturn::Integer);
    }
    let Ok(bytes) = TypedArray::<u8>::from_value(value) else {
        return Ok(ScriptReturn::Other(type_name));
    };
    let text: String = to_latin1.call((bytes,))?;
    Ok(ScriptReturn::Bytes(text.chars().map(|c| quoit_number::low_u8(u64::from(c))).collect()))
}

/// The fault of a call that failed or exceeded a limit.
fn fault_of(path: &Path, error: &CaughtError<'_>) -> ScriptFault {
    if CALL_LIMITS.get().is_cut {
        let steps = u64::from(STEPS_MAX) * 10_000;
        let text = format!(
            "the call was cut after about {steps} loops and calls, or {CALL_TIME_MAX:?}: does a loop have an \
             end? Do less in one call"
        );
        return ScriptFault::of_call(path, text);
    }
    let (message, stack) = match error {
        CaughtError::Exception(exception) => {
            let name = exception.as_object().get::<_, String>("name").unwrap_or_default();
            let message = exception.message().unwrap_or_default();
            (format!("{name}: {message}"), exception.stack().unwrap_or_default())
        }
        // There was no memory left to create an exception.
        CaughtError::Value(value) if value.is_null() => {
            ("InternalError: out of memory".to_owned(), String::new())
        }
        CaughtError::Value(value) => {
            let text = value.as_string().and_then(|text| text.to_string().ok());
            (
                text.unwrap_or_else(|| "a value that is no Error was thrown".to_owned()),
                String::new(),
            )
        }
        CaughtError::Error(error) => (error.to_string(), String::new()),
    };
    let mut text: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    if text.contains("out of memory") {
        text.push_str(&format!(
            " ({} MiB for the workers of a thread): release values that are not needed",
            MEMORY_BYTES_MAX >> 20
        ));
    } else if text.contains("stack overflow") || text.contains("call stack size") {
        text.push_str(": functions call each other too deeply, use a loop");
    }
    ScriptFault::of_stack(path, &stack, text)
}
