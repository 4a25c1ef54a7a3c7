//! How an engine finds a module: by the links made when the skill was read, never on disk.

use crate::skill::program::Program;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result};
use std::rc::Rc;

pub(super) struct Links(pub(super) Rc<Program>);

impl Resolver for Links {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        let linked = self.0.modules.get(base).and_then(|module| module.imports.get(name));
        linked.cloned().ok_or_else(|| Error::new_resolving(base, name))
    }
}

impl Loader for Links {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        let module = self.0.modules.get(name).ok_or_else(|| Error::new_loading(name))?;
        Module::declare(ctx.clone(), name, module.js.as_str())
    }
}
