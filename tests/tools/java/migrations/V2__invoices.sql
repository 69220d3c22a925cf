CREATE TABLE invoices (id INT AUTO_INCREMENT PRIMARY KEY, total DECIMAL(10,2) NOT NULL);
CREATE QUEUE invoice_events (invoice INT);
INSERT INTO invoices (total) VALUES (12.50);
