//! The connectors' door: seed 003's walk and everything around it.

mod binding;
mod budget;
mod clients;
mod delivery;
mod frames;
mod limits;
mod name;
mod neighbour;
mod people;
mod receipts;
mod restart;
mod siblings;
mod stranger;
mod walk;
