//! The functions that scripts have in addition to the language.

use rquickjs::{Ctx, Exception, Function, Object, TypedArray};

use super::{CALLER, Caller, SIZE_BYTES_MAX};

/// Adds the functions that scripts have in addition to the language.
pub(super) fn add_functions(ctx: &Ctx<'_>) -> rquickjs::Result<()> {
    let globals = ctx.globals();
    let fraction = |ctx: Ctx<'_>| with_caller(&ctx, |caller| caller.random.fraction());
    globals.get::<_, Object<'_>>("Math")?.set("random", Function::new(ctx.clone(), fraction)?)?;
    globals.set("random", Function::new(ctx.clone(), random)?)?;
    globals.set("randomText", Function::new(ctx.clone(), random_text)?)?;
    globals.set("randomBytes", Function::new(ctx.clone(), random_bytes)?)?;
    let exponential =
        |ctx: Ctx<'_>, mean: f64| with_caller(&ctx, |caller| caller.random.exponential(mean));
    globals.set("randomExponential", Function::new(ctx.clone(), exponential)?)?;
    let count = |ctx: Ctx<'_>| with_caller(&ctx, |caller| caller.place.count);
    globals.set("workerCount", Function::new(ctx.clone(), count)?)
}

fn with_caller<T>(ctx: &Ctx<'_>, act: impl FnOnce(&mut Caller) -> T) -> rquickjs::Result<T> {
    CALLER.with_borrow_mut(|caller| match caller {
        Some(caller) => Ok(act(caller)),
        None => Err(Exception::throw_type(ctx, "there is no worker")),
    })
}

/// A uniform integer from 1 to `max`.
fn random(ctx: Ctx<'_>, max: f64) -> rquickjs::Result<f64> {
    if !(1.0..=9_007_199_254_740_991.0).contains(&max) {
        return Err(Exception::throw_range(&ctx, "random(max) wants a number from 1 to 2^53 - 1"));
    }
    with_caller(&ctx, |caller| caller.random.uniform(quoit_number::whole(max)) as f64)
}

fn size_of(ctx: &Ctx<'_>, size: f64) -> rquickjs::Result<usize> {
    if (0.0..=SIZE_BYTES_MAX as f64).contains(&size) {
        return Ok(quoit_number::index(quoit_number::whole(size)));
    }
    Err(Exception::throw_range(ctx, "a size is 0 to 67108864 bytes"))
}

/// A text of random printable characters.
fn random_text(ctx: Ctx<'_>, size: f64) -> rquickjs::Result<String> {
    let size = size_of(&ctx, size)?;
    with_caller(&ctx, |caller| {
        let character = |_| char::from(caller.random.printable());
        (0..size).map(character).collect()
    })
}

/// Random bytes.
fn random_bytes(ctx: Ctx<'_>, size: f64) -> rquickjs::Result<TypedArray<'_, u8>> {
    let size = size_of(&ctx, size)?;
    let bytes = with_caller(&ctx, |caller| {
        (0..size).map(|_| quoit_number::low_u8(caller.random.uniform(256) - 1)).collect::<Vec<u8>>()
    })?;
    TypedArray::new(ctx, bytes)
}
