//! Nodes as text, and where requests belong.
