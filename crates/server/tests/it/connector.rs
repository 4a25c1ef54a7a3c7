//! The connectors' door: seed 003's walk and everything around it.

mod binding;
mod clients;
mod delivery;
mod frames;
mod limits;
mod name;
mod people;
mod restart;
mod stranger;
mod walk;
