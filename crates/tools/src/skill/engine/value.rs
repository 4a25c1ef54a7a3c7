//! Values on their way between the heap of an engine and ours.

use crate::skill::fetch::SkillResponse;
use cortex_store::{SkillDbChange, SkillDbRows, SkillDbValue};
use rquickjs::{Array, BigInt, Ctx, Exception, IntoJs, Object, Result, TypedArray, Value};

/// Beyond it a JavaScript number skips integers.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

#[expect(unsafe_code, reason = "the engine only lends its bytes; there is no safe way to read a view")]
pub(super) fn bytes(ctx: &Ctx<'_>, view: &TypedArray<'_, u8>) -> Result<Vec<u8>> {
    // SAFETY: copied at once, before any JavaScript can run and move or free them.
    let lent = unsafe { view.as_bytes() };
    lent.map(<[u8]>::to_vec).ok_or_else(|| Exception::throw_type(ctx, "the buffer is detached"))
}

pub(super) fn response<'js>(ctx: &Ctx<'js>, response: SkillResponse) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("status", response.status)?;
    object.set("url", response.url)?;
    object.set("headers", pairs(ctx, response.headers)?)?;
    object.set("body", TypedArray::new_copy(ctx.clone(), response.body.0)?)?;
    Ok(object)
}

pub(super) fn pairs<'js>(
    ctx: &Ctx<'js>,
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        array.set(index, vec![name, value])?;
    }
    Ok(array)
}

pub(super) fn read_pairs(array: &Array<'_>) -> Result<Vec<(String, String)>> {
    array
        .iter::<Array<'_>>()
        .map(|pair| {
            let pair = pair?;
            Ok((pair.get(0)?, pair.get(1)?))
        })
        .collect()
}

/// Rows as objects, the way `ctx.db.query` gives them.
pub(super) fn rows<'js>(ctx: &Ctx<'js>, found: SkillDbRows) -> Result<Array<'js>> {
    let array = Array::new(ctx.clone())?;
    for (index, row) in found.rows.into_iter().enumerate() {
        let object = Object::new(ctx.clone())?;
        for (column, value) in found.columns.iter().zip(row) {
            object.set(column.as_str(), from_db(ctx, value)?)?;
        }
        array.set(index, object)?;
    }
    Ok(array)
}

pub(super) fn change<'js>(ctx: &Ctx<'js>, change: SkillDbChange) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let changes = i64::try_from(change.changes).unwrap_or(i64::MAX);
    object.set("changes", from_db(ctx, SkillDbValue::Integer(changes))?)?;
    object.set("lastInsertRowid", from_db(ctx, SkillDbValue::Integer(change.last_insert_rowid))?)?;
    Ok(object)
}

fn from_db<'js>(ctx: &Ctx<'js>, value: SkillDbValue) -> Result<Value<'js>> {
    match value {
        SkillDbValue::Null => Ok(Value::new_null(ctx.clone())),
        SkillDbValue::Integer(number) if number.unsigned_abs() <= SAFE_INTEGER_MAX => {
            Ok(Value::new_number(ctx.clone(), number as f64))
        }
        SkillDbValue::Integer(number) => Ok(BigInt::from_i64(ctx.clone(), number)?.into_value()),
        SkillDbValue::Real(number) => Ok(Value::new_float(ctx.clone(), number)),
        SkillDbValue::Text(text) => text.into_js(ctx),
        SkillDbValue::Blob(bytes) => Ok(TypedArray::new_copy(ctx.clone(), bytes)?.into_value()),
    }
}

/// What a skill binds to a statement.
pub(super) fn to_db<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<SkillDbValue> {
    if value.is_null() || value.is_undefined() {
        return Ok(SkillDbValue::Null);
    }
    if let Some(flag) = value.as_bool() {
        return Ok(SkillDbValue::Integer(i64::from(flag)));
    }
    if let Some(number) = value.as_int() {
        return Ok(SkillDbValue::Integer(i64::from(number)));
    }
    if let Some(number) = value.as_float() {
        return Ok(whole(number).map_or(SkillDbValue::Real(number), SkillDbValue::Integer));
    }
    if let Some(text) = value.as_string() {
        return Ok(SkillDbValue::Text(text.to_string()?));
    }
    if let Some(number) = value.as_big_int() {
        return Ok(SkillDbValue::Integer(number.clone().to_i64()?));
    }
    match TypedArray::<u8>::from_value(value) {
        Ok(view) => bytes(ctx, &view).map(SkillDbValue::Blob),
        Err(_) => Err(Exception::throw_type(
            ctx,
            "a parameter must be null, a boolean, a number, a bigint, a string or a Uint8Array",
        )),
    }
}

fn whole(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() <= SAFE_INTEGER_MAX as f64;
    is_whole.then_some(number as i64)
}
